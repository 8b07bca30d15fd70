//! Hashes of the keys of a part of a table that is stored again, where the hasher is the caller's.
//!
//! Slots do not hold hashes. The caller's hasher may panic, wait and use the map, so it is not
//! called under a lock (R7). A thread that wants to store a part again checks, under the part's
//! lock, whether all hashes are known. If not, it notes the tags, releases everything, asks, and
//! tries again. Each answer is used once, and within the part: a hasher that contradicts itself
//! only moves a key to where lookups do not find it (R8).

use crate::hash::HashCodec;
use std::collections::HashMap;

/// The known hashes. The default hasher needs none.
#[derive(Debug, Default)]
pub(in crate::table) struct Rehashed(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    /// The highest bits that the hashes of the part share, and how many bits those are.
    part: (u64, u32),
    known: HashMap<u64, u64, foldhash::fast::FixedState>,
    missing: Vec<u64>,
}

/// Returns a mask of the bits of a hash below the highest `bits`.
fn own_bits(bits: u32) -> u64 {
    u64::MAX.checked_shr(bits).unwrap_or(0)
}

/// Hashes must be asked for, while nothing is held and no operation is announced.
#[derive(Debug)]
pub(in crate::table) struct Unhashed;

impl Rehashed {
    /// Returns whether the hashes of these tags are known. The tags are all of a part, whose hashes
    /// share their highest `bits` bits with `hash`.
    pub(in crate::table) fn has_all<P: HashCodec>(
        &mut self,
        (hash, bits): (u64, u32),
        tags: impl Iterator<Item = u64>,
    ) -> bool {
        if !P::runs_callers_code() {
            return true;
        }
        let lists = &mut **self.0.get_or_insert_default();
        let part = (hash & !own_bits(bits), bits);
        if lists.part != part {
            // The part has been replaced by another.
            *lists = Lists { part, ..Lists::default() };
        }
        let Lists { known, missing, .. } = lists;
        missing.extend(tags.filter(|tag| !known.contains_key(tag)));
        missing.is_empty()
    }

    pub(in crate::table) fn is_missing(&self) -> bool {
        self.0.as_ref().is_some_and(|lists| !lists.missing.is_empty())
    }

    /// Asks the hasher for the missing hashes. The thread holds no lock and has announced no
    /// operation.
    pub(in crate::table) fn learn<P: HashCodec>(&mut self, codec: &P) {
        let Some(lists) = &mut self.0 else { return };
        let Lists { part: (part, bits), known, missing } = &mut **lists;
        for tag in missing.drain(..) {
            let hash = codec.hash_of_tag(tag, (*part >> 63) as usize);
            known.insert(tag, *part | hash & own_bits(*bits));
        }
    }

    /// Returns the hash of a tag that is known.
    #[inline(always)]
    pub(in crate::table) fn hash<P: HashCodec>(&self, codec: &P, tag: u64, half: usize) -> u64 {
        if !P::runs_callers_code() {
            return codec.hash_of_tag(tag, half);
        }
        match self.0.as_ref().and_then(|lists| lists.known.get(&tag)) {
            Some(&hash) => hash,
            None => unreachable!("all tags of the part are known"),
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::hash::WordCodec;
    use core::hash::BuildHasher;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// A hasher that returns another hash each time.
    #[derive(Default)]
    struct Fickle(AtomicU64);

    impl BuildHasher for Fickle {
        type Hasher = std::hash::DefaultHasher;
        fn build_hasher(&self) -> Self::Hasher {
            let mut hasher = Self::Hasher::new();
            core::hash::Hasher::write_u64(&mut hasher, self.0.fetch_add(1, Ordering::Relaxed));
            hasher
        }
    }

    #[test]
    fn what_a_hasher_said_counts_and_stays_in_its_part() {
        type P = WordCodec<Fickle>;
        let (codec, mut hashes) = (P::new(Fickle::default()), Rehashed::default());
        let part = (0xabc0_0000_0000_0123, 12);
        assert!(!hashes.has_all::<P>(part, 1000..1100));
        assert!(hashes.is_missing());
        hashes.learn(&codec);
        assert!(hashes.has_all::<P>(part, 1000..1100) && !hashes.is_missing());
        for tag in 1000..1100 {
            let hash = hashes.hash(&codec, tag, 1);
            assert_eq!(hash >> 52, 0xabc);
            assert_eq!(hashes.hash(&codec, tag, 1), hash);
        }
        assert!(!hashes.has_all::<P>(part, 1000..1101));
        assert!(!hashes.has_all::<P>((part.0, 11), 1000..1001), "of another part");
    }
}
