//! Keys with many values, as in figures 8 to 10 of Pea Hash.

mod memory;
pub(super) mod pairs;

use super::phases::{Phases, Rows, bytes_per_item, measure_all};
use super::subjects::{MultiStrings, RamMulti, StringVectors, Subject, Vectors};
use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::keys::Random;
use crate::machine::resident_bytes;
use crate::process;
use crate::settings::Settings;
use crate::targets::{Hasher, MapName, Shards};
use crate::threads::{CheckFailed, check, share};
use pairs::Source;
use serde::{Deserialize, Serialize};

/// The request to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    phases: Phases,
    source: String,
    scale: f64,
    /// The number of pairs of a distribution.
    pairs: u64,
    /// The length of keys that are byte strings.
    key_bytes: Option<usize>,
}

impl process::Request for Request {
    const KIND: &str = "Duplicates";
    type Answer = Vec<Option<f64>>;
}

pub(crate) fn run(settings: &Settings) -> Result<Vec<Figure>, CheckFailed> {
    let title = "Keys with many values (Pea Hash, figures 8 to 10)";
    let measures = [
        "pairs",
        "keys",
        "insert M/s",
        "skewed search M/s",
        "values M/s",
        "unique search M/s",
        "values M/s",
        "remove all M/s",
        "values M/s",
        "bytes a pair in RAM",
        "open ms",
    ];
    let mut figure = Figure::new(title, &["source", "threads", "map", "operations"], &measures);
    let options = &settings.options.duplicates;
    let key_bytes = options.duplicates_key_bytes;
    let maps = if key_bytes.is_some() { &MAPS_OF_STRINGS[..] } else { &MAPS };
    let mut rows = Rows::new();
    for source in &options.duplicates_sources {
        for phases in Phases::of_maps(settings, maps)? {
            let at = [vec![source.clone()], phases.at()].concat();
            rows.push((
                at,
                Request {
                    phases,
                    source: source.clone(),
                    scale: options.duplicates_scale,
                    pairs: settings.items,
                    key_bytes,
                },
            ));
        }
    }
    measure_all(&mut figure, &rows, settings.repetitions)?;
    figure.note(
        "Inserts are into an empty map. Searches copy all values of a key: of keys as often as \
         they have values (skewed), or of each key alike (unique). Each map is measured in a \
         process of its own.",
    );
    if let Some(bytes) = key_bytes {
        figure.note(format!(
            "Keys are byte strings of {bytes} bytes. In the peers a key owns its bytes, and a \
             vector has its values.",
        ));
        return Ok(vec![figure]);
    }
    Ok(vec![figure, memory::by_kind(settings)?])
}

/// The maps of keys with many values.
const MAPS: [&str; 5] = ["pea", "pea-file", "dashmap", "scc", "sharded"];

/// Those of them whose keys may be byte strings.
const MAPS_OF_STRINGS: [&str; 4] = ["pea", "dashmap", "scc", "sharded"];

fn measure_strings(request: &Request, key_bytes: usize) -> Result<Vec<Option<f64>>, CheckFailed> {
    type Values = Vec<u64>;
    type Dashmap = StringVectors<dashmap::DashMap<Box<[u8]>, Values, Hasher>>;
    type Scc = StringVectors<scc::HashMap<Box<[u8]>, Values, Hasher>>;
    type Sharded = StringVectors<Shards<Box<[u8]>, Values>>;
    match request.phases.map {
        MapName::Pea => measure_subject(request, || MultiStrings::new(key_bytes)),
        MapName::Dashmap => measure_subject(request, || Dashmap::new(key_bytes)),
        MapName::Scc => measure_subject(request, || Scc::new(key_bytes)),
        MapName::Sharded => measure_subject(request, || Sharded::new(key_bytes)),
        other => Err(CheckFailed(format!("{other} has no byte strings with many values"))),
    }
}

/// Measures in this process.
pub(crate) fn measure(request: &Request) -> Result<Vec<Option<f64>>, CheckFailed> {
    type Dashmap = Vectors<dashmap::DashMap<u64, Vec<u64>, Hasher>>;
    type Scc = Vectors<scc::HashMap<u64, Vec<u64>, Hasher>>;
    type Sharded = Vectors<Shards<u64, Vec<u64>>>;
    if let Some(key_bytes) = request.key_bytes {
        return measure_strings(request, key_bytes);
    }
    match request.phases.map {
        MapName::Pea => measure_subject(request, RamMulti::new),
        #[cfg(durable)]
        MapName::PeaFile => measure_subject(request, super::subjects::FiledMulti::new),
        MapName::Dashmap => measure_subject(request, Dashmap::new),
        MapName::Scc => measure_subject(request, Scc::new),
        MapName::Sharded => measure_subject(request, Sharded::new),
        other => Err(CheckFailed(format!("{other} has no keys with many values"))),
    }
}

fn measure_subject<S: Subject>(
    request: &Request,
    make: impl FnOnce() -> S,
) -> Result<Vec<Option<f64>>, CheckFailed> {
    let source: Source = request.source.parse().map_err(CheckFailed)?;
    let pairs = source.pairs(request.scale, request.pairs).map_err(CheckFailed)?;
    let (count, phases) = (pairs.len() as u64, &request.phases);
    let first = pairs.first().ok_or_else(|| CheckFailed("there are no pairs".into()))?.0;
    let (skewed, unique) = keys_of(&pairs);
    back_free_memory(count);

    let before = resident_bytes();
    let map = make();
    let insert = phases.insert(&map, count, |index| pairs[index as usize], count)?;
    let bytes = bytes_per_item(before, count);
    let (map, open_ms) = map.reopen();

    let search = |keys: &[u64]| {
        let found = phases.look_up(
            &map,
            |worker| {
                let own = share(keys.len() as u64, worker.number, phases.threads);
                let own = &keys[own.start as usize..own.end as usize];
                let mut keys = own.iter().cycle();
                // A thread without keys, if there are more threads than keys, takes the first one.
                move || (*keys.next().unwrap_or(&first), 0)
            },
            |_, _| true,
        );
        let (rate, values) = found?;
        check(values >= 1.0, "a key has no value")?;
        Ok([rate, rate * values])
    };
    let (skewed, of_unique) = (search(&skewed)?, search(&unique)?);
    let keys = unique.len() as u64;
    let remove = phases.delete(&map, keys, |index| unique[index as usize], count)?;
    let remove = [remove, remove * count as f64 / keys as f64];
    let rates = [[insert].as_slice(), &skewed, &of_unique, &remove].concat();
    let rates = [count as f64, keys as f64].into_iter().chain(rates).map(Some);
    Ok(rates.chain([bytes, open_ms]).collect())
}

/// Returns keys to look up, shuffled: each as often as it has values (4 Mi in all at most), and
/// each once.
fn keys_of(pairs: &[(u64, u64)]) -> (Vec<u64>, Vec<u64>) {
    let mut skewed: Vec<u64> = pairs.iter().map(|(key, _)| *key).collect();
    let mut unique = skewed.clone();
    unique.sort_unstable();
    unique.dedup();
    let mut random = Random::new(7);
    for keys in [&mut skewed, &mut unique] {
        for at in (1..keys.len()).rev() {
            keys.swap(at, random.below(at as u64 + 1) as usize);
        }
    }
    skewed.truncate(4 << 20);
    (skewed, unique)
}
