//! Bins whose keys do not fit: their pairs, under a lock (invariant 8).
//!
//! A bin is delegated when more keys hash to it than it has slots although the index is nearly
//! empty, so that growth would not help, or when there is no memory for growth. Operations on it
//! cost a lock and a look at all of its pairs (`apply.rs`); other bins are not affected.

use std::collections::HashMap;

#[derive(Debug, Default)]
pub(super) struct Overflow {
    pub(super) bins: HashMap<usize, DelegatedBin>,
    /// A snapshot waits for its cut, so no pair may change.
    pub(super) frozen: bool,
    /// The last version that was given to a bin. No two states of a bin have the same version.
    pub(super) versions: u64,
}

/// The pairs of a bin, as its slots would hold them.
#[derive(Debug, Default, Clone)]
pub(super) struct DelegatedBin {
    pub(super) version: u64,
    pub(super) pairs: Vec<(u64, u64)>,
    /// The pairs are kept for a snapshot; the next index has them.
    pub(super) moved: bool,
}

impl Overflow {
    pub(super) fn delegate(&mut self, bin: usize, pairs: Vec<(u64, u64)>) {
        self.versions += 1;
        self.bins.insert(bin, DelegatedBin { version: self.versions, pairs, moved: false });
    }

    pub(super) fn push(&mut self, bin: usize, pair: (u64, u64)) {
        self.bins.entry(bin).or_default().pairs.push(pair);
    }

    /// Takes a bin's pairs for a migration, or copies them if a snapshot needs them here.
    pub(super) fn drain(&mut self, bin: usize, keeps: bool) -> Vec<(u64, u64)> {
        if !keeps {
            return self.bins.remove(&bin).unwrap_or_default().pairs;
        }
        let Some(delegated) = self.bins.get_mut(&bin) else { return Vec::new() };
        delegated.moved = true;
        delegated.pairs.clone()
    }

    /// Returns a bin whose pairs have not been taken.
    pub(super) fn present(&self, bin: usize) -> Option<&DelegatedBin> {
        self.bins.get(&bin).filter(|delegated| !delegated.moved)
    }

    /// Copies a bin's pairs. Returns `None` if they have been taken.
    pub(super) fn pairs(&self, bin: usize) -> Option<Vec<(u64, u64)>> {
        self.present(bin).map(|delegated| delegated.pairs.clone())
    }

    /// Copies the pairs that a snapshot kept here.
    pub(super) fn kept_pairs(&self, bin: usize) -> Vec<(u64, u64)> {
        self.bins.get(&bin).map(|delegated| delegated.pairs.clone()).unwrap_or_default()
    }

    /// Replaces or removes a pair of a bin. Returns `None` if the bin's pairs have been taken, and
    /// `Some(false)` if the bin has no such pair.
    pub(super) fn replace(
        &mut self,
        bin: usize,
        pair: (u64, u64),
        by: Option<(u64, u64)>,
    ) -> Option<bool> {
        self.versions += 1;
        let version = self.versions;
        let delegated = self.bins.get_mut(&bin).filter(|delegated| !delegated.moved)?;
        delegated.version = version;
        let Some(at) = delegated.pairs.iter().position(|other| *other == pair) else {
            return Some(false);
        };
        match by {
            Some(by) => delegated.pairs[at] = by,
            None => drop(delegated.pairs.swap_remove(at)),
        }
        Some(true)
    }

    pub(super) fn freeze(&mut self) {
        self.frozen = true;
    }

    pub(super) fn len(&self) -> usize {
        self.bins.values().filter(|bin| !bin.moved).map(|bin| bin.pairs.len()).sum()
    }

    pub(super) fn delegated_bins(&self) -> usize {
        self.bins.len()
    }
}
