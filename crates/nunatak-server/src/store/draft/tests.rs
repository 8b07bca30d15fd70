use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What is stored, as a map has it.
#[derive(Debug, Default)]
struct Model {
    record: Option<Vec<u8>>,
    segments: BTreeMap<SegmentKey, Vec<u8>>,
    count: i64,
}

impl Model {
    fn draft(&self, kind: Kind) -> Draft {
        let record = self.record.as_ref().and_then(|bytes| Record::read_any(bytes));
        record.map_or_else(|| Draft::new(kind, None, true), |it| Draft::of(it, true).unwrap())
    }

    fn load(&self) -> impl FnMut(&SegmentKey) -> Vec<u8> {
        |key| copy_of(self.segments.get(key).map(Vec::as_slice))
    }

    fn store(&mut self, finished: Option<Finished>) {
        let Some(finished) = finished else {
            let root = self.record.take().and_then(|record| Record::root_of(&record));
            self.count -= i64::from(root.map_or(0, |root| root.segments));
            root.iter().flat_map(Root::keys).for_each(|key| drop(self.segments.remove(&key)));
            return;
        };
        assert_eq!(finished.replaces, self.record.is_none());
        self.record = finished.record.or(self.record.take());
        self.count += finished.growth;
        for (key, record) in finished.segments {
            match record {
                Some(record) => drop(self.segments.insert(key, record)),
                None => assert!(self.segments.remove(&key).is_some()),
            }
        }
    }

    /// Reads everything, and checks that each member is where it is looked for.
    fn all(&self, kind: Kind) -> BTreeMap<Vec<u8>, Vec<u8>> {
        assert_eq!(self.segments.len() as i64, self.count);
        let Some(record) = self.record.as_ref().and_then(|bytes| Record::read_any(bytes)) else {
            return BTreeMap::new();
        };
        let copy = |(member, value): (&[u8], &[u8])| (member.to_vec(), value.to_vec());
        let Some(root) = record.root() else {
            return members(kind, record.payload).map(copy).collect();
        };
        assert_eq!(u64::from(root.segments), self.segments.len() as u64);
        let mut all = BTreeMap::new();
        let mut bytes = 0;
        for segment in 0..root.segments {
            let record = &self.segments[&root.key(segment)];
            assert!(Record::is_hidden(record) && Record::read_any(record).is_none());
            bytes += record.len() as u64 - 1;
            for (member, value) in members(kind, &record[1..]) {
                assert_eq!(root.segment_of(member), segment);
                assert!(all.insert(member.to_vec(), value.to_vec()).is_none());
            }
        }
        assert_eq!((root.members, root.bytes), (all.len() as u64, bytes));
        all
    }
}

#[derive(Debug, Clone)]
enum Step {
    Set(u16, usize),
    SetMany(u16, u16),
    Remove(u16),
    RemoveMany(u16, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..600_u16, prop_oneof![9 => 0..100_usize, 1 => 0..6000_usize]).prop_map(|(a, b)| Step::Set(a, b)),
        2 => (0..600_u16, 1..500_u16).prop_map(|(a, b)| Step::SetMany(a, b)),
        6 => (0..600_u16).prop_map(Step::Remove),
        2 => (0..600_u16, 1..500_u16).prop_map(|(a, b)| Step::RemoveMany(a, b)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn drafts_are_maps(steps in steps(), kind in prop_oneof![Just(Kind::Set), Just(Kind::Hash)]) {
        let (mut model, mut wanted) = (Model::default(), BTreeMap::new());
        for step in steps {
            let mut draft = model.draft(kind);
            let mut load = model.load();
            let name = |member: u16| format!("member {member}").into_bytes();
            let range = |from: u16, count: u16| (from..from + count).map(|it| it % 600);
            let mut set = |draft: &mut Draft, member: u16, len: usize| {
                let value = if kind == Kind::Hash { vec![b'v'; len] } else { Vec::new() };
                let is_new = draft.set(&mut load, &name(member), &value);
                assert_eq!(is_new, wanted.insert(name(member), value).is_none());
            };
            match step {
                Step::Set(member, len) => set(&mut draft, member, len),
                Step::SetMany(from, count) => {
                    range(from, count).for_each(|it| set(&mut draft, it, usize::from(it % 30)));
                }
                Step::Remove(member) => {
                    let is_removed = draft.remove(&mut model.load(), &name(member));
                    assert_eq!(is_removed, wanted.remove(&name(member)).is_some());
                }
                Step::RemoveMany(from, count) => range(from, count).for_each(|it| {
                    let is_removed = draft.remove(&mut model.load(), &name(it));
                    assert_eq!(is_removed, wanted.remove(&name(it)).is_some());
                }),
            }
            prop_assert_eq!(draft.len(), wanted.len() as u64);
            drop(load);
            let seen = draft.get(&mut model.load(), &name(7)).map(<[u8]>::to_vec);
            prop_assert_eq!(seen.as_ref(), wanted.get(&name(7)));
            model.store(draft.finish());
            prop_assert_eq!(model.all(kind), wanted.clone());
        }
    }
}

#[test]
fn a_value_grows_to_segments_and_becomes_one_record_again() {
    let mut model = Model::default();
    let put = |model: &mut Model, at: u32| {
        let mut draft = model.draft(Kind::Set);
        draft.set(&mut model.load(), &at.to_le_bytes(), &[]);
        let finished = draft.finish().unwrap();
        let changed = finished.segments.len();
        model.store(Some(finished));
        changed
    };
    for at in 0..INLINE_MEMBERS as u32 {
        assert_eq!(put(&mut model, at), 0);
    }
    assert_eq!(put(&mut model, 999_999), (INLINE_MEMBERS + 1).div_ceil(MEMBERS) as usize);
    for at in INLINE_MEMBERS as u32..20_000 {
        assert!((1..=3).contains(&put(&mut model, at)), "a few segments are changed");
    }
    assert_eq!(model.count as u64, 20_001_u64.div_ceil(MEMBERS));
    assert_eq!(model.all(Kind::Set).len(), 20_001);
    for at in 0..20_000_u32 {
        let mut draft = model.draft(Kind::Set);
        assert!(draft.remove(&mut model.load(), &at.to_le_bytes()));
        model.store(draft.finish());
    }
    assert_eq!((model.all(Kind::Set).len(), model.segments.len()), (1, 0));
}

/// Segments that one command has loaded, and merged, are not loaded again.
#[test]
fn many_members_go_together() {
    let mut model = Model::default();
    let set =
        |draft: &mut Draft, load: &mut Load<'_>, at: u32| draft.set(load, &at.to_le_bytes(), &[]);
    let mut draft = model.draft(Kind::Set);
    assert!((0..5000).all(|at| set(&mut draft, &mut model.load(), at)));
    model.store(draft.finish());
    for left in [3000, 700, 100, 3] {
        let mut draft = model.draft(Kind::Set);
        for at in left..5000_u32 {
            draft.remove(&mut model.load(), &at.to_le_bytes());
        }
        assert!(!set(&mut draft, &mut model.load(), 1) && set(&mut draft, &mut model.load(), 6000));
        assert!(draft.remove(&mut model.load(), &6000_u32.to_le_bytes()));
        assert_eq!(draft.len(), u64::from(left));
        model.store(draft.finish());
        assert_eq!(model.all(Kind::Set).len(), left as usize);
    }
}

#[test]
fn a_large_value_is_split_by_its_bytes() {
    let mut draft = Draft::new(Kind::Hash, Some(7), true);
    for at in 0..40_u32 {
        draft.set(&mut |_| copy_of(None), &at.to_le_bytes(), &[b'x'; 10_000]);
    }
    let finished = draft.finish().unwrap();
    assert!((20..=40).contains(&finished.segments.len()), "{}", finished.segments.len());
    assert_eq!(Record::read_any(&finished.record.unwrap()).unwrap().expiry, Some(7));
    // One member is one record, however large it is.
    let mut draft = Draft::new(Kind::Hash, None, true);
    draft.set(&mut |_| copy_of(None), b"large", &[b'x'; 1_000_000]);
    assert!(draft.finish().unwrap().segments.is_empty());
    // Where segments are not allowed, so are many.
    let mut draft = Draft::new(Kind::Set, None, false);
    for at in 0..1000_u32 {
        draft.set(&mut |_| copy_of(None), &at.to_le_bytes(), &[]);
    }
    assert!(draft.finish().unwrap().segments.is_empty());
}

#[test]
fn a_value_that_stays_the_same_size_keeps_its_root() {
    let mut model = Model::default();
    let mut draft = model.draft(Kind::Hash);
    for at in 0..1000_u32 {
        draft.set(&mut |_| copy_of(None), &at.to_le_bytes(), b"a");
    }
    model.store(draft.finish());
    let mut draft = model.draft(Kind::Hash);
    assert!(!draft.set(&mut model.load(), &7_u32.to_le_bytes(), b"b"));
    let finished = draft.finish().unwrap();
    assert!(finished.record.is_none() && finished.segments.len() == 1 && finished.growth == 0);
    let mut draft = model.draft(Kind::Hash);
    assert!(!draft.set(&mut model.load(), &7_u32.to_le_bytes(), b"a"));
    assert!(draft.finish().unwrap().segments.is_empty(), "it has that value");
}

#[test]
fn random_members_are_all_members() {
    for count in [1, 50, 129, 3000_u32] {
        let payload = {
            let mut payload = Vec::new();
            (0..count).for_each(|at| push_item(&mut payload, &at.to_le_bytes()));
            payload
        };
        let mut model = Model::default();
        let draft = Draft::of_payload((Kind::Set, None), &payload, true);
        model.store(draft.finish());
        assert_eq!(model.all(Kind::Set).len(), count as usize);
        let mut draft = model.draft(Kind::Set);
        let mut drawn = BTreeMap::new();
        for _ in 0..count * 12 {
            let (member, _) = draft.random(&mut model.load()).unwrap();
            *drawn.entry(member).or_insert(0_u32) += 1;
        }
        let all: BTreeSet<Vec<u8>> = model.all(Kind::Set).into_keys().collect();
        // Each is drawn 12 times on average: that one of 3,000 is never drawn is as likely as 1 : 54.
        let missed = all.len() - drawn.len();
        assert!(missed <= 2 && drawn.keys().all(|it| all.contains(it)), "{count}: {missed}");
        assert!(drawn.values().all(|&times| times <= 12 * 5 || count == 1));
    }
}
