//! Roots: where the items of a large set or hash are.
//!
//! A set or a hash with many members has them in segments, each a record of its own, so that a change copies one
//! segment and not the whole. The value's own record has the root:
//!
//! ```text
//! | id (16) | members (8) | bytes of all items (8) | segments (4) |
//! ```
//!
//! and segment s has the key
//!
//! ```text
//! | id (16) | s (4) |
//! ```
//!
//! The id is drawn at random, and no client is told it: that a client has a key of the same bytes is as likely as
//! that it guesses a cipher's key of 128 bits. It is also the key of the hash (SipHash-1-3) that distributes the
//! members, so nobody can choose members that meet in one segment.
//!
//! Segments grow and shrink by one, as in linear hashing (Litwin, "Linear Hashing: a new tool for file and table
//! addressing", 1980): with n segments and L = log2(n), rounded down, a member is in the segment that the lower L
//! bits of its hash name, or, where that one has been split already, the lower L + 1 bits. Hashes with reversed bits
//! order the members so that each segment is an interval, whatever n is. A scan walks along them: who is split or
//! merged meanwhile stays in front of the cursor or behind it.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The bytes of the key of a segment.
const KEY: usize = 20;
/// The bytes of a root.
const ROOT: usize = 36;
/// The bits of a hash that a cursor leaves out: there are fewer than 2^32 segments. Clients may read cursors as
/// signed numbers.
const BELOW_CURSOR: u32 = 16;

/// The key of a segment.
pub(crate) type SegmentKey = [u8; KEY];

/// Where the items of a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) id: [u8; 16],
    pub(crate) members: u64,
    /// Of all items, as they are stored.
    pub(crate) bytes: u64,
    /// One at least.
    pub(crate) segments: u32,
}

impl Root {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ROOT] = bytes.try_into().ok()?;
        let (id, rest) = bytes.split_first_chunk()?;
        let (members, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let segments = u32::from_le_bytes(rest.try_into().ok()?);
        let (members, bytes) = (u64::from_le_bytes(*members), u64::from_le_bytes(*bytes));
        (segments > 0).then_some(Self { id: *id, members, bytes, segments })
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.members.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.segments.to_le_bytes());
    }

    /// Returns the key of a segment.
    pub(crate) fn key(&self, segment: u32) -> SegmentKey {
        let mut key = [0; KEY];
        key[..16].copy_from_slice(&self.id);
        key[16..].copy_from_slice(&segment.to_le_bytes());
        key
    }

    /// Returns the keys of all segments.
    pub(crate) fn keys(&self) -> impl Iterator<Item = SegmentKey> {
        (0..self.segments).map(|segment| self.key(segment))
    }

    /// Returns the number that the key of a segment has.
    pub(crate) fn segment_of_key(key: &SegmentKey) -> u32 {
        key.last_chunk().copied().map_or(0, u32::from_le_bytes)
    }

    /// Returns the id that the key of a segment has.
    pub(crate) fn id_of(key: &[u8]) -> Option<[u8; 16]> {
        let key: &SegmentKey = key.try_into().ok()?;
        key.first_chunk().copied()
    }

    /// Returns the hash of a member.
    pub(crate) fn hash(&self, member: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.id);
        hasher.write(member);
        hasher.finish()
    }

    /// Returns the segment of a member.
    pub(crate) fn segment_of(&self, member: &[u8]) -> u32 {
        self.segment_of_hash(self.hash(member))
    }

    fn segment_of_hash(&self, hash: u64) -> u32 {
        let log = self.segments.ilog2();
        let short = hash as u32 & ((1 << log) - 1);
        if short >= self.segments - (1 << log) {
            return short;
        }
        // It has been split.
        short | ((hash >> log & 1) as u32) << log
    }

    /// Returns the segment that is split next into itself and a new one, and the bit of the hash that decides.
    pub(crate) fn next_split(&self) -> (u32, u64) {
        let log = self.segments.ilog2();
        (self.segments - (1 << log), 1 << log)
    }

    /// Returns the segment that the last one is merged with. There are two at least.
    pub(crate) fn next_merge(&self) -> u32 {
        let last = self.segments - 1;
        last - (1 << last.ilog2())
    }

    /// Returns the segment at a cursor, and the cursor behind it; zero at the end.
    pub(crate) fn at_cursor(&self, cursor: u64) -> (u32, u64) {
        let begin = cursor << BELOW_CURSOR;
        let segment = self.segment_of_hash(begin.reverse_bits());
        let log = self.segments.ilog2();
        // Segments that have been split, and the new ones, have one bit more.
        let is_short = segment >= self.segments - (1 << log) && segment < 1 << log;
        let bits = if is_short { log } else { log + 1 };
        let begin = u64::from(segment).reverse_bits();
        let end = if bits == 0 { 0 } else { begin.wrapping_add(1 << (u64::BITS - bits)) };
        (segment, end >> BELOW_CURSOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn root(segments: u32) -> Root {
        Root { id: *b"0123456789abcdef", members: 7, bytes: 300, segments }
    }

    #[test]
    fn roots_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        root(5).append_to(&mut bytes);
        assert_eq!(Root::decode(&bytes), Some(root(5)));
        assert_eq!(Root::decode(&bytes[1..]), None);
        bytes[32..].fill(0);
        assert_eq!(Root::decode(&bytes), None, "without segments");
        assert_eq!(Root::id_of(&root(5).key(4)), Some(root(5).id));
        assert_eq!(Root::id_of(b"short"), None);
    }

    #[test]
    fn a_split_moves_members_to_the_new_segment_only() {
        for segments in 1..70 {
            let (before, after) = (root(segments), root(segments + 1));
            let (split, bit) = before.next_split();
            assert_eq!(after.next_merge(), split);
            for hash in (0..5000_u64).map(|it| it.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7) {
                let (from, to) = (before.segment_of_hash(hash), after.segment_of_hash(hash));
                let is_moved = from == split && hash & bit != 0;
                assert_eq!(to, if is_moved { segments } else { from }, "{segments} {hash:x}");
            }
        }
    }

    #[test]
    fn a_walk_by_cursors_meets_each_segment_once() {
        for segments in 1..70 {
            let (mut cursor, mut met) = (0, BTreeSet::new());
            loop {
                let (segment, next) = root(segments).at_cursor(cursor);
                assert!(met.insert(segment));
                assert!(next > cursor || next == 0);
                cursor = next;
                if next == 0 {
                    break;
                }
            }
            assert!(met.into_iter().eq(0..segments));
        }
    }

    /// A member in front of the cursor stays there while segments are split and merged.
    #[test]
    fn a_walk_misses_nobody_while_segments_change() {
        let mut counts = [3, 9, 30, 8, 2, 1, 50, 64, 65, 20].into_iter().cycle();
        for first in 1..40 {
            let (mut cursor, mut now, mut met) = (0, root(first), BTreeSet::new());
            loop {
                let (segment, next) = now.at_cursor(cursor);
                let members =
                    (0..1000_u32).filter(|it| now.segment_of(&it.to_le_bytes()) == segment);
                met.extend(members);
                if next == 0 {
                    break;
                }
                (cursor, now) = (next, root(counts.next().unwrap()));
            }
            assert_eq!(met.len(), 1000, "{first}");
        }
    }

    #[test]
    fn any_cursor_is_one() {
        for cursor in [1, 77, 1 << 47, u64::MAX >> 16, u64::MAX] {
            for segments in [1, 2, 5, 64, u32::MAX] {
                let (segment, next) = root(segments).at_cursor(cursor);
                assert!(segment < segments && next <= u64::MAX >> BELOW_CURSOR);
            }
        }
    }
}
