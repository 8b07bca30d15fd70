//! Drafts: the next state of a set or a hash, of which only the segments that change are loaded.
//!
//! A value is one record while it is small. When it is not any more, it is put in [segments](super::root), which
//! are split and merged one by one as it grows and shrinks.

use super::record::{Items, Kind, Record, SEGMENT, find, items_of_segment, members, push_item};
use super::root::{Root, SegmentKey};
use crate::sample::random_below;
use foldhash::fast::RandomState;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::ops::Range;

/// The most members and bytes of a value in one record: what Redis has in a listpack, with the same order.
const INLINE_MEMBERS: u64 = 128;
const INLINE_BYTES: u64 = 128 * (64 + 64 + 2);

/// How many members, and bytes, a segment has at most on average. A change copies them, and a segment takes some 60
/// bytes beside them: with 12, 6 and 4 a change of one of 10^6 fields took 2.8, 2.3 and 2.5 µs of a server's time, and
/// two hashes and a set of that size 87, 94 and 105 MB.
const MEMBERS: u64 = 6;
const BYTES: u64 = 768;
/// How many it has at least on average.
const FEW_MEMBERS: u64 = 2;
const FEW_BYTES: u64 = 192;

/// How many segments are split or merged for one member, so that no member costs much.
const STEPS: usize = 8;

/// The most members of a segment, but one in billions.
const MANY: usize = 40;
/// How often a random member is looked for.
const TRIES: usize = 10_000;

/// Reads the record of a segment, as [`copy_of`] makes it.
pub(crate) type Load<'l> = dyn FnMut(&SegmentKey) -> Vec<u8> + 'l;

/// A segment, as it will be.
#[derive(Debug)]
struct Part {
    /// The first byte is that of a segment's record.
    record: Vec<u8>,
    is_changed: bool,
}

impl Default for Part {
    fn default() -> Self {
        Self { record: vec![SEGMENT], is_changed: false }
    }
}

impl Part {
    fn items(&self) -> &[u8] {
        self.record.get(HEAD..).unwrap_or_default()
    }
}

/// The segments that were loaded or made. Most commands are about one.
#[derive(Debug, Default)]
struct Parts {
    first: Option<(u32, Part)>,
    others: HashMap<u32, Part, RandomState>,
}

impl Parts {
    fn get_or_load(&mut self, segment: u32, load: impl FnOnce() -> Part) -> &mut Part {
        let is_first = match &self.first {
            Some((first, _)) => *first == segment,
            None => !self.others.contains_key(&segment),
        };
        match is_first {
            true => &mut self.first.get_or_insert_with(|| (segment, load())).1,
            false => self.others.entry(segment).or_insert_with(load),
        }
    }

    fn insert(&mut self, segment: u32, part: Part) {
        *self.get_or_load(segment, Part::default) = part;
    }

    fn remove(&mut self, segment: u32) -> Option<Part> {
        let first = self.first.take_if(|(first, _)| *first == segment);
        first.map(|(_, part)| part).or_else(|| self.others.remove(&segment))
    }

    fn into_iter(self) -> impl Iterator<Item = (u32, Part)> {
        self.first.into_iter().chain(self.others)
    }
}

/// The bytes in front of the items.
const HEAD: usize = 1;
/// How many bytes a segment may grow by until it is copied.
const ROOM: usize = 64;

/// Copies the record of a segment. One that is not there has no items.
pub(crate) fn copy_of(record: Option<&[u8]>) -> Vec<u8> {
    let items = items_of_segment(record);
    let mut copy = Vec::with_capacity(HEAD + items.len() + ROOM);
    copy.push(SEGMENT);
    copy.extend_from_slice(items);
    copy
}

/// How the value is stored at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// Not at all, or it will be replaced.
    Not,
    Inline,
    InSegments(Root),
}

/// The next state of a set or a hash.
#[derive(Debug)]
pub(crate) struct Draft {
    kind: Kind,
    expiry: Option<u64>,
    stored: Stored,
    /// The id is none while the value is one record.
    root: Root,
    is_in_segments: bool,
    /// Whether it may be put in segments, and would be.
    may_have_segments: bool,
    wants_segments: bool,
    parts: Parts,
}

/// What is to be stored.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The value's own record; `None` if it stays as it is.
    pub(crate) record: Option<Vec<u8>>,
    /// The records of segments, new ones in front; `None` for those that go.
    pub(crate) segments: Vec<(SegmentKey, Option<Vec<u8>>)>,
    /// By how many there are more segments then.
    pub(crate) growth: i64,
    /// Whether no record names the segments yet.
    pub(crate) is_new: bool,
    /// Whether what is stored under the key is another value, which goes.
    pub(crate) replaces: bool,
    /// Whether the value would have segments if it might.
    pub(crate) wants_segments: bool,
}

/// Returns where an item with its length in front begins, where its value does, and where that ends.
fn locate(kind: Kind, payload: &[u8], member: &[u8]) -> Option<(usize, Range<usize>)> {
    let mut items = Items::of(payload);
    loop {
        let begin = payload.len() - items.left();
        let name = items.next()?;
        let value = payload.len() - items.left();
        if kind == Kind::Hash {
            items.next()?;
        }
        if name == member {
            return Some((begin, value..payload.len() - items.left()));
        }
    }
}

impl Draft {
    /// Begins with nothing.
    pub(crate) fn new(kind: Kind, expiry: Option<u64>, may_have_segments: bool) -> Self {
        let root = Root { id: [0; 16], members: 0, bytes: 0, segments: 1 };
        Self {
            kind,
            expiry,
            stored: Stored::Not,
            root,
            is_in_segments: false,
            may_have_segments,
            wants_segments: false,
            parts: Parts::default(),
        }
    }

    /// Begins with a value that is stored. `None` if its root is damaged.
    pub(crate) fn of(record: Record<'_>, may_have_segments: bool) -> Option<Self> {
        let mut draft = Self::new(record.kind, record.expiry, may_have_segments);
        if record.is_in_segments {
            draft.root = record.root()?;
            (draft.stored, draft.is_in_segments) = (Stored::InSegments(draft.root), true);
        } else {
            draft.stored = Stored::Inline;
            draft.fill(record.payload);
        }
        Some(draft)
    }

    /// Begins with items that differ, as a new value.
    pub(crate) fn of_payload(
        (kind, expiry): (Kind, Option<u64>),
        payload: &[u8],
        may_have_segments: bool,
    ) -> Self {
        let mut draft = Self::new(kind, expiry, may_have_segments);
        draft.fill(payload);
        draft.grow(&mut |_| copy_of(None));
        draft
    }

    fn fill(&mut self, payload: &[u8]) {
        self.root.members = members(self.kind, payload).count() as u64;
        self.root.bytes = payload.len() as u64;
        let mut record = Vec::with_capacity(HEAD + payload.len() + ROOM);
        record.push(SEGMENT);
        record.extend_from_slice(payload);
        self.parts.insert(0, Part { record, is_changed: false });
    }

    /// Returns how many members there are.
    pub(crate) fn len(&self) -> u64 {
        self.root.members
    }

    fn segment_of(&self, member: &[u8]) -> u32 {
        if self.is_in_segments { self.root.segment_of(member) } else { 0 }
    }

    fn part(&mut self, load: &mut Load<'_>, segment: u32) -> &mut Part {
        let (root, is_in_segments) = (self.root, self.is_in_segments);
        self.parts.get_or_load(segment, || match is_in_segments {
            true => Part { record: load(&root.key(segment)), is_changed: false },
            false => Part::default(),
        })
    }

    /// Returns the value of a member: see [`find`].
    pub(crate) fn get(&mut self, load: &mut Load<'_>, member: &[u8]) -> Option<&[u8]> {
        let (kind, segment) = (self.kind, self.segment_of(member));
        find(kind, self.part(load, segment).items(), member)
    }

    /// Sets a member, with its value if it is a hash's field. Returns whether it is new.
    pub(crate) fn set(&mut self, load: &mut Load<'_>, member: &[u8], value: &[u8]) -> bool {
        let (kind, segment) = (self.kind, self.segment_of(member));
        let part = self.part(load, segment);
        let before = part.record.len();
        let place = locate(kind, part.items(), member);
        let is_new = place.is_none();
        match place {
            Some(_) if kind == Kind::Set => {}
            Some((_, place)) => {
                let mut item = Vec::with_capacity(value.len() + 4);
                push_item(&mut item, value);
                let place = HEAD + place.start..HEAD + place.end;
                if part.record[place.clone()] != item {
                    part.record.splice(place, item);
                    part.is_changed = true;
                }
            }
            None => {
                push_item(&mut part.record, member);
                if kind == Kind::Hash {
                    push_item(&mut part.record, value);
                }
                part.is_changed = true;
            }
        }
        let after = part.record.len();
        self.root.bytes = (self.root.bytes + after as u64).saturating_sub(before as u64);
        self.root.members += u64::from(is_new);
        self.grow(load);
        is_new
    }

    /// Removes a member. Returns whether it was there.
    pub(crate) fn remove(&mut self, load: &mut Load<'_>, member: &[u8]) -> bool {
        let (kind, segment) = (self.kind, self.segment_of(member));
        let part = self.part(load, segment);
        let Some((begin, value)) = locate(kind, part.items(), member) else { return false };
        part.record.drain(HEAD + begin..HEAD + value.end);
        part.is_changed = true;
        self.root.bytes = self.root.bytes.saturating_sub((value.end - begin) as u64);
        self.root.members = self.root.members.saturating_sub(1);
        self.shrink(load);
        true
    }

    /// Returns a random member with its value, each with the same probability. `None` if there is none.
    pub(crate) fn random(&mut self, load: &mut Load<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
        let kind = self.kind;
        let copy = |(member, value): (&[u8], &[u8])| (member.to_vec(), value.to_vec());
        if !self.is_in_segments {
            let at = random_below(self.root.members as usize);
            return members(kind, self.part(load, 0).items()).nth(at).map(copy);
        }
        if self.root.members == 0 {
            return None;
        }
        // A segment and a place are drawn until there is a member.
        for _ in 0..TRIES {
            let segment = random_below(self.root.segments as usize) as u32;
            let part = self.part(load, segment);
            let found = members(kind, part.items()).nth(random_below(MANY)).map(copy);
            if found.is_some() {
                return found;
            }
        }
        // So few that all can be looked at; or what is read changes meanwhile.
        let segments = 0..self.root.segments;
        segments
            .into_iter()
            .find_map(|segment| members(kind, self.part(load, segment).items()).next().map(copy))
    }

    /// How many segments there should be at least.
    fn wanted(&self) -> u64 {
        let Root { members, bytes, .. } = self.root;
        // Members do not become smaller.
        members.div_ceil(MEMBERS).max(bytes.div_ceil(BYTES)).min(members).min(u32::MAX.into())
    }

    fn grow(&mut self, load: &mut Load<'_>) {
        let Root { members, bytes, .. } = self.root;
        let mut steps = STEPS;
        if !self.is_in_segments {
            let is_small = members <= INLINE_MEMBERS && bytes <= INLINE_BYTES || members <= 1;
            self.wants_segments = !is_small && !self.may_have_segments;
            if is_small || self.wants_segments {
                return;
            }
            let mut id = [0; 16];
            match self.stored {
                Stored::InSegments(before) => id = before.id,
                // Without random numbers it stays as it is.
                _ if SystemRandom::new().fill(&mut id).is_err() => return,
                _ => {}
            }
            (self.root.id, self.is_in_segments) = (id, true);
            self.parts.get_or_load(0, Part::default).is_changed = true;
            // All of it is here.
            steps = usize::MAX;
        }
        while steps > 0 && u64::from(self.root.segments) < self.wanted() {
            self.split(load);
            steps -= 1;
        }
    }

    fn split(&mut self, load: &mut Load<'_>) {
        let ((segment, bit), root, kind) = (self.root.next_split(), self.root, self.kind);
        let part = self.part(load, segment);
        let (mut stays, mut goes) = (copy_of(None), copy_of(None));
        for (member, value) in members(kind, part.items()) {
            let to = if root.hash(member) & bit == 0 { &mut stays } else { &mut goes };
            push_item(to, member);
            if kind == Kind::Hash {
                push_item(to, value);
            }
        }
        part.is_changed |= goes.len() > HEAD;
        part.record = stays;
        self.parts.insert(self.root.segments, Part { record: goes, is_changed: true });
        self.root.segments += 1;
    }

    fn shrink(&mut self, load: &mut Load<'_>) {
        if !self.is_in_segments {
            return;
        }
        let mut steps = STEPS;
        while steps > 0 && self.root.segments > 1 {
            let Root { members, bytes, segments, .. } = self.root;
            let segments = u64::from(segments);
            if members >= segments * FEW_MEMBERS || bytes >= segments * FEW_BYTES {
                return;
            }
            let (last, into) = (self.root.segments - 1, self.root.next_merge());
            self.part(load, last);
            let gone = self.parts.remove(last).unwrap_or_default();
            let part = self.part(load, into);
            part.record.extend_from_slice(gone.items());
            part.is_changed |= !gone.items().is_empty();
            self.root.segments = last;
            steps -= 1;
        }
        let Root { members, bytes, segments, .. } = self.root;
        if segments == 1 && members <= INLINE_MEMBERS / 2 && bytes <= INLINE_BYTES / 2 {
            self.part(load, 0);
            (self.is_in_segments, self.root.id) = (false, [0; 16]);
        }
    }

    /// Returns what is to be stored, or `None` if there are no members left.
    pub(crate) fn finish(self) -> Option<Finished> {
        if self.root.members == 0 {
            return None;
        }
        let Self { kind, expiry, stored, root, is_in_segments, wants_segments, mut parts, .. } =
            self;
        let replaces = stored == Stored::Not;
        let before = match stored {
            Stored::InSegments(before) => Some(before),
            Stored::Not | Stored::Inline => None,
        };
        let mut record = Vec::new();
        if !is_in_segments {
            let part = parts.remove(0).unwrap_or_default();
            record.reserve_exact(part.items().len() + 9);
            Record::push_head(&mut record, kind, expiry);
            record.extend_from_slice(part.items());
            let segments: Vec<_> =
                before.iter().flat_map(Root::keys).map(|key| (key, None)).collect();
            let growth = -(segments.len() as i64);
            let record = Some(record);
            let is_new = false;
            return Some(Finished { record, segments, growth, is_new, replaces, wants_segments });
        }
        let record = (before != Some(root)).then(|| {
            Record::push_root_head(&mut record, kind, expiry);
            root.append_to(&mut record);
            record
        });
        let count_before = before.map_or(0, |before| before.segments);
        let gone = (root.segments..count_before).map(|segment| (root.key(segment), None));
        let changed = parts.into_iter().filter(|(_, part)| part.is_changed);
        let changed = changed.map(|(segment, part)| (root.key(segment), Some(part.record)));
        let mut segments: Vec<_> = changed.collect();
        // New ones first: if the memory ends, none is missing.
        segments.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(Root::segment_of_key(key)));
        segments.extend(gone);
        let growth = i64::from(root.segments) - i64::from(count_before);
        let is_new = before.is_none();
        Some(Finished { record, segments, growth, is_new, replaces, wants_segments })
    }
}

#[cfg(test)]
mod tests;
