//! Mixed batches of byte strings, on each kind of entries: the same outcomes as one operation after the
//! other.

use nunatak::alloc::Global;
use nunatak::entry::{Entries, Format, InPlace, KeyOf, Named, VARIABLE};
use nunatak::{
    BlobMap, ByteMap, Design, Dlht, DlhtRecordMap, DlhtShadowRecordMap, Error, Iceberg, Namespace,
    Outcome, Pea, RandomState, RecordMap, Request, Stop, TurboBlobMap,
};
use std::collections::BTreeMap;

/// How many batches, and how many requests of each: more than are fetched at once.
const BATCHES: u64 = if cfg!(miri) { 3 } else { 300 };
const REQUESTS: u64 = 150;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

type Model<K> = BTreeMap<K, Vec<u8>>;

/// Applies a request to the model and returns its outcome.
fn apply<K: Ord + Clone>(model: &mut Model<K>, request: &Request<K, Vec<u8>>) -> Outcome<Vec<u8>> {
    let before = model.get(request.key()).cloned();
    match request {
        Request::Insert(key, value) => drop(model.insert(key.clone(), value.clone())),
        Request::TryInsert(key, value) => drop(model.entry(key.clone()).or_insert(value.clone())),
        Request::Update(key, value) if before.is_some() => {
            model.insert(key.clone(), value.clone());
        }
        Request::Remove(key) => drop(model.remove(key)),
        Request::Get(_) | Request::Update(..) => {}
    }
    request.outcome(before)
}

/// Compares random batches with the model. `copy` copies a value.
fn agrees<E, D, K>(
    map: &ByteMap<E, D>,
    key: impl Fn(u64) -> K,
    copy: impl Fn(E::Value<'_>) -> Vec<u8>,
) where
    E: Entries,
    D: Design,
    K: KeyOf<E::Naming> + Ord + Clone,
{
    let (mut random, mut model) = (Random(7), Model::new());
    for batch in 0..BATCHES {
        let requests: Vec<_> = (0..REQUESTS)
            .map(|at| {
                let key = key(random.below(40));
                // Whole words, which records in place have.
                let value = vec![at as u8; 8 * random.below(5) as usize];
                match random.below(5) {
                    0 => Request::Get(key),
                    1 => Request::Insert(key, value),
                    2 => Request::TryInsert(key, value),
                    3 => Request::Update(key, value),
                    _ => Request::Remove(key),
                }
            })
            .collect();
        let stop = if batch % 2 == 0 { Stop::Never } else { Stop::AtFirstFailure };
        let mut outcomes = Vec::new();
        let executed = map.execute(&requests, stop, |at, outcome| {
            assert_eq!(at, outcomes.len());
            outcomes.push(match outcome {
                Outcome::Found(value) => Outcome::Found(copy(value)),
                Outcome::Replaced(value) => Outcome::Replaced(copy(value)),
                Outcome::Occupied(value) => Outcome::Occupied(copy(value)),
                Outcome::Removed(value) => Outcome::Removed(copy(value)),
                Outcome::Inserted => Outcome::Inserted,
                Outcome::Missing => Outcome::Missing,
                Outcome::Pending => Outcome::Pending,
            });
        });
        let mut expected = Vec::new();
        for request in &requests {
            expected.push(apply(&mut model, request));
            if stop == Stop::AtFirstFailure && expected.last().is_some_and(|it| !it.is_success()) {
                break;
            }
        }
        assert_eq!(executed, Ok(expected.len()));
        assert_eq!(outcomes, expected, "batch {batch}");
        assert_eq!(map.len(), model.len());
    }
}

fn name(number: u64) -> Vec<u8> {
    // Of several lengths.
    format!("{number:0width$}", width = number as usize % 12).into_bytes()
}

#[test]
fn batches_of_blobs_agree_with_single_operations() {
    agrees(&BlobMap::<RandomState, Dlht>::default(), name, <[u8]>::to_vec);
    agrees(&BlobMap::<RandomState, Iceberg>::default(), name, <[u8]>::to_vec);
    agrees(&BlobMap::<RandomState, Pea>::default(), name, <[u8]>::to_vec);
    agrees(&TurboBlobMap::new(), name, <[u8]>::to_vec);
}

#[test]
fn batches_of_records_agree_with_single_operations() {
    agrees(&DlhtRecordMap::<Format>::new(), name, <[u8]>::to_vec);
    let map: RecordMap<Format, Global, RandomState, Iceberg> = RecordMap::default();
    agrees(&map, name, <[u8]>::to_vec);
}

/// Keys of 8 bytes in namespaces, and values that change in place.
type Rows = Format<8, VARIABLE, Named, InPlace>;

fn row(number: u64) -> (Namespace, [u8; 8]) {
    (Namespace::new(number as u16 % 3).unwrap(), (number / 3).to_le_bytes())
}

#[test]
fn batches_in_namespaces_agree_with_single_operations() {
    let map: DlhtRecordMap<Rows> = DlhtRecordMap::new();
    agrees(&map, row, |words| {
        (0..words.len() / 8)
            .flat_map(|at| words.word(at).load(std::sync::atomic::Ordering::Relaxed).to_ne_bytes())
            .collect()
    });
}

/// A value that can't be stored ends the batch, and what was done before stays done.
#[test]
fn a_batch_ends_at_a_hidden_key_or_an_impossible_value() {
    let map: DlhtShadowRecordMap<Format<1, VARIABLE>> = DlhtShadowRecordMap::new();
    let shadow = map.shadow_insert(b"h", b"1").unwrap();
    let requests = [
        Request::Insert("a", "1"),
        Request::Get("h"),
        Request::Update("h", "2"),
        Request::Insert("h", "2"),
        Request::Insert("b", "1"),
    ];
    let mut outcomes = Vec::new();
    let mut run = || {
        outcomes.clear();
        map.execute(&requests, Stop::Never, |_, outcome| outcomes.push(outcome.is_success()))
    };
    assert_eq!(run(), Err((3, Error::Shadowed)));
    assert_eq!(outcomes, [true, false, false], "what is hidden is not there");
    assert!(map.contains_key(b"a") && !map.contains_key(b"b"));
    shadow.commit();
    assert!(map.execute(&requests, Stop::Never, |_, _| ()).is_ok());
    assert_eq!(map.get(b"h"), Some(b"2".to_vec()));
    let too_long = [Request::Insert("c", "1"), Request::Insert("long", "1"), Request::Remove("c")];
    let refused = map.execute(&too_long, Stop::Never, |_, _| ());
    assert!(matches!(refused, Err((1, _))) && map.contains_key(b"c"), "{refused:?}");
}

/// A request may use the map again while it looks at an outcome.
#[test]
fn outcomes_may_use_the_map() {
    let map = TurboBlobMap::new();
    let requests = [Request::Insert("a", "1"), Request::Insert("a", "2"), Request::Remove("a")];
    let mut seen = Vec::new();
    let executed = map.execute(&requests, Stop::Never, |at, outcome| {
        map.put(b"a", &[at as u8; 100]).unwrap();
        map.reclaim();
        if let Outcome::Replaced(value) | Outcome::Removed(value) = outcome {
            seen.push(value.to_vec());
        }
    });
    assert_eq!((executed, seen), (Ok(3), vec![vec![0; 100], vec![1; 100]]));
    assert!(map.execute(&[] as &[Request<&str, &str>], Stop::Never, |_, _| ()) == Ok(0));
}
