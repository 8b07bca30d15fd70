//! Two sets: unions, intersections and differences, by batches of lookups.

use crate::entry::InlineKey;
use crate::hash::Hashing;
use crate::map::inline::set::InlineSet;
use crate::table::{HashesWith, Unshadowed};

/// How many keys are looked up at once.
const WINDOW: usize = 64;

/// The keys of an iterator that are in a set, or those that are not.
struct Filtered<'s, I, K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> {
    keys: I,
    set: &'s InlineSet<K, S, D>,
    /// Whether keys that are in the set are yielded.
    present: bool,
    /// Keys that were found and not yielded yet: the last one is yielded first.
    found: Vec<K>,
}

impl<I: Iterator<Item = K>, K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> Iterator
    for Filtered<'_, I, K, S, D>
{
    type Item = K;

    fn next(&mut self) -> Option<K> {
        loop {
            if let Some(key) = self.found.pop() {
                return Some(key);
            }
            let keys: Vec<K> = self.keys.by_ref().take(WINDOW).collect();
            if keys.is_empty() {
                return None;
            }
            let mut present = [None; WINDOW];
            if self.set.contains_many(&keys, &mut present).is_err() {
                unreachable!("there are as many answers as keys");
            }
            let wanted = keys.iter().zip(present);
            let wanted = wanted.filter(|(_, is_in)| is_in.is_some() == self.present);
            self.found.extend(wanted.map(|(&key, _)| key));
        }
    }
}

/// Operations on two sets. Each is weakly consistent: its answer about a key was true at some
/// moment during the iteration. Keys are looked up in batches, whose memory latencies overlap.
/// (Semi-joins are intersections, anti-joins are differences: DLHT, section 3.1.)
impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> InlineSet<K, S, D> {
    fn filter<'s, T: Hashing, E: HashesWith<T> + Unshadowed>(
        &'s self,
        other: &'s InlineSet<K, T, E>,
        present: bool,
    ) -> impl Iterator<Item = K> + 's {
        Filtered { keys: self.iter(), set: other, present, found: Vec::new() }
    }

    /// Iterates over the keys that are in both sets.
    ///
    /// ```
    /// # use nunatak::{DlhtSet, TurboSet};
    /// let (a, b): (DlhtSet<u32>, TurboSet<u32>) = ((0..6).collect(), (4..9).collect());
    /// assert_eq!(a.intersection(&b).map(|key| key + 1).sum::<u32>(), 5 + 6);
    /// ```
    pub fn intersection<'s, T: Hashing, E: HashesWith<T> + Unshadowed>(
        &'s self,
        other: &'s InlineSet<K, T, E>,
    ) -> impl Iterator<Item = K> + 's {
        self.filter(other, true)
    }

    /// Iterates over the keys that are not in the other set.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let (a, b): (DlhtSet<u32>, DlhtSet<u32>) = ((0..6).collect(), (1..9).collect());
    /// assert_eq!(a.difference(&b).collect::<Vec<_>>(), [0]);
    /// ```
    pub fn difference<'s, T: Hashing, E: HashesWith<T> + Unshadowed>(
        &'s self,
        other: &'s InlineSet<K, T, E>,
    ) -> impl Iterator<Item = K> + 's {
        self.filter(other, false)
    }

    /// Iterates over the keys that are in exactly one of both sets.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let (a, b): (DlhtSet<u32>, DlhtSet<u32>) = ((0..6).collect(), (1..7).collect());
    /// assert_eq!(a.symmetric_difference(&b).sum::<u32>(), 6);
    /// ```
    pub fn symmetric_difference<'s, T: Hashing, E: HashesWith<T> + Unshadowed>(
        &'s self,
        other: &'s InlineSet<K, T, E>,
    ) -> impl Iterator<Item = K> + 's {
        self.difference(other).chain(other.difference(self))
    }

    /// Iterates over the keys that are in at least one of both sets, each once.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let (a, b): (DlhtSet<u32>, DlhtSet<u32>) = ((0..6).collect(), (1..7).collect());
    /// assert_eq!(a.union(&b).count(), 7);
    /// ```
    pub fn union<'s, T: Hashing, E: HashesWith<T> + Unshadowed>(
        &'s self,
        other: &'s InlineSet<K, T, E>,
    ) -> impl Iterator<Item = K> + 's {
        self.iter().chain(other.difference(self))
    }

    /// Returns whether no key is in both sets.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let (a, b): (DlhtSet<u32>, DlhtSet<u32>) = ((0..6).collect(), (6..7).collect());
    /// assert!(a.is_disjoint(&b));
    /// ```
    pub fn is_disjoint<T: Hashing, E: HashesWith<T> + Unshadowed>(
        &self,
        other: &InlineSet<K, T, E>,
    ) -> bool {
        self.intersection(other).next().is_none()
    }

    /// Returns whether all keys are in the other set.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let (a, b): (DlhtSet<u32>, DlhtSet<u32>) = ((0..6).collect(), (0..7).collect());
    /// assert!(a.is_subset(&b) && !b.is_subset(&a));
    /// ```
    pub fn is_subset<T: Hashing, E: HashesWith<T> + Unshadowed>(
        &self,
        other: &InlineSet<K, T, E>,
    ) -> bool {
        self.difference(other).next().is_none()
    }

    /// Returns whether all keys of the other set are in this one.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let (a, b): (DlhtSet<u32>, DlhtSet<u32>) = ((0..6).collect(), (0..3).collect());
    /// assert!(a.is_superset(&b));
    /// ```
    pub fn is_superset<T: Hashing, E: HashesWith<T> + Unshadowed>(
        &self,
        other: &InlineSet<K, T, E>,
    ) -> bool {
        other.is_subset(self)
    }
}

/// Copies all keys, and frees the set before the first is yielded.
impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> IntoIterator for InlineSet<K, S, D> {
    type Item = K;
    type IntoIter = std::vec::IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<K>>().into_iter()
    }
}
