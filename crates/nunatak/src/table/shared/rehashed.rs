//! Hashes of the keys of a part of a table that is stored anew, where the hasher is the
//! caller's.
//!
//! Slots don't hold hashes. The caller's hasher may panic, wait and use the map, so that it is
//! not asked under a lock: whoever wants to store a part anew looks, under its lock, whether
//! all hashes are known. If not, the tags are noted, the operation lets everything go, asks,
//! and tries again. What the hasher says counts once, and within the part: a hasher that says
//! something else each time moves a key to where it is not found, and nothing else.

use crate::hash::HashCodec;
use std::collections::HashMap;

/// What is known of hashes. Of the default hasher nothing needs to be.
#[derive(Debug, Default)]
pub(in crate::table) struct Rehashed(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    /// What hashes of the part have in common: that many of their highest bits.
    part: (u64, u32),
    known: HashMap<u64, u64, foldhash::fast::FixedState>,
    missing: Vec<u64>,
}

/// The bits of a hash below so many.
fn own_bits(bits: u32) -> u64 {
    u64::MAX.checked_shr(bits).unwrap_or(0)
}

/// Hashes are to be asked for, while nothing is held and no operation announced.
#[derive(Debug)]
pub(in crate::table) struct Unhashed;

impl Rehashed {
    /// Whether the hashes of these tags are known: all of a part, whose hashes have as many
    /// highest bits in common with `hash`.
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
            // It is another part by now.
            *lists = Lists { part, ..Lists::default() };
        }
        let Lists { known, missing, .. } = lists;
        missing.extend(tags.filter(|tag| !known.contains_key(tag)));
        missing.is_empty()
    }

    /// Whether it was asked for something that it does not know.
    pub(in crate::table) fn is_missing(&self) -> bool {
        self.0.as_ref().is_some_and(|lists| !lists.missing.is_empty())
    }

    /// Asks the hasher for what is missing. The thread holds no lock and is in no operation.
    pub(in crate::table) fn learn<P: HashCodec>(&mut self, codec: &P) {
        let Some(lists) = &mut self.0 else { return };
        let Lists { part: (part, bits), known, missing } = &mut **lists;
        for tag in missing.drain(..) {
            let hash = codec.hash_of_tag(tag, (*part >> 63) as usize);
            known.insert(tag, *part | hash & own_bits(*bits));
        }
    }

    /// The hash of a tag that is known.
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

    /// Says something else each time.
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
