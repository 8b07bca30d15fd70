//! Two sets: unions, intersections and differences, by batches of lookups. Written once for sets of
//! all kinds.

/// A function from an entry of a map without values to its key.
pub(in crate::map) type KeyOf<K> = fn((K, ())) -> K;

/// An iterator over the keys of an iterator over entries.
pub(in crate::map) type Keys<I, K> = core::iter::Map<I, KeyOf<K>>;

pub(in crate::map) fn key_of<K>((key, ()): (K, ())) -> K {
    key
}

/// How many keys are looked up at once.
const WINDOW: usize = 64;

/// The keys of an iterator that are in a set, or those that are not.
pub(in crate::map) struct Filtered<K, I, F> {
    keys: I,
    /// Looks up many keys.
    contains_many: F,
    /// Whether keys that are in the set are yielded.
    present: bool,
    /// Keys that were found and not yielded yet: the last one is yielded first.
    found: Vec<K>,
}

impl<K, I, F> Filtered<K, I, F>
where
    I: Iterator<Item = K>,
    F: Fn(&[K], &mut [Option<()>]),
{
    pub(in crate::map) fn new(keys: I, contains_many: F, present: bool) -> Self {
        Self { keys, contains_many, present, found: Vec::new() }
    }
}

impl<K, I, F> Iterator for Filtered<K, I, F>
where
    I: Iterator<Item = K>,
    F: Fn(&[K], &mut [Option<()>]),
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
            (self.contains_many)(&keys, &mut present);
            let wanted = keys.into_iter().zip(present);
            let wanted = wanted.filter(|(_, is_in)| is_in.is_some() == self.present);
            self.found.extend(wanted.map(|(key, _)| key));
        }
    }
}

/// The operations on two sets of a kind: the names of two sets for the examples, the other set's parameters, and its
/// type.
macro_rules! set_algebra {
    ($dlht:literal, $turbo:literal, [$($other:tt)+], $set:ty) => {
        fn filter<'s, $($other)+>(
            &'s self,
            other: &'s $set,
            present: bool,
        ) -> impl Iterator<Item = K> + 's {
            let contains_many = |keys: &[K], present: &mut [Option<()>]| {
                if other.contains_many(keys, present).is_err() {
                    unreachable!("there are as many answers as keys");
                }
            };
            Filtered::new(self.iter(), contains_many, present)
        }

            /// Iterates over the keys that are in both sets.
            ///
            /// ```
            #[doc = concat!("# use nunatak::{", $dlht, ", ", $turbo, "};")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $turbo, "<u32>) =")]
            ///     ((0..6).collect(), (4..9).collect());
            /// assert_eq!(a.intersection(&b).map(|key| key + 1).sum::<u32>(), 5 + 6);
            /// ```
            pub fn intersection<'s, $($other)+>(
                &'s self,
                other: &'s $set,
            ) -> impl Iterator<Item = K> + 's {
                self.filter(other, true)
            }

            /// Iterates over the keys that are not in the other set.
            ///
            /// ```
            #[doc = concat!("# use nunatak::", $dlht, ";")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $dlht, "<u32>) =")]
            ///     ((0..6).collect(), (1..9).collect());
            /// assert_eq!(a.difference(&b).collect::<Vec<_>>(), [0]);
            /// ```
            pub fn difference<'s, $($other)+>(
                &'s self,
                other: &'s $set,
            ) -> impl Iterator<Item = K> + 's {
                self.filter(other, false)
            }

            /// Iterates over the keys that are in exactly one of both sets.
            ///
            /// ```
            #[doc = concat!("# use nunatak::", $dlht, ";")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $dlht, "<u32>) =")]
            ///     ((0..6).collect(), (1..7).collect());
            /// assert_eq!(a.symmetric_difference(&b).sum::<u32>(), 6);
            /// ```
            pub fn symmetric_difference<'s, $($other)+>(
                &'s self,
                other: &'s $set,
            ) -> impl Iterator<Item = K> + 's {
                self.difference(other).chain(other.difference(self))
            }

            /// Iterates over the keys that are in at least one of both sets, each once.
            ///
            /// ```
            #[doc = concat!("# use nunatak::", $dlht, ";")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $dlht, "<u32>) =")]
            ///     ((0..6).collect(), (1..7).collect());
            /// assert_eq!(a.union(&b).count(), 7);
            /// ```
            pub fn union<'s, $($other)+>(
                &'s self,
                other: &'s $set,
            ) -> impl Iterator<Item = K> + 's {
                self.iter().chain(other.difference(self))
            }

            /// Returns whether no key is in both sets.
            ///
            /// ```
            #[doc = concat!("# use nunatak::", $dlht, ";")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $dlht, "<u32>) =")]
            ///     ((0..6).collect(), (6..7).collect());
            /// assert!(a.is_disjoint(&b));
            /// ```
            pub fn is_disjoint<$($other)+>(
                &self,
                other: &$set,
            ) -> bool {
                self.intersection(other).next().is_none()
            }

            /// Returns whether all keys are in the other set.
            ///
            /// ```
            #[doc = concat!("# use nunatak::", $dlht, ";")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $dlht, "<u32>) =")]
            ///     ((0..6).collect(), (0..7).collect());
            /// assert!(a.is_subset(&b) && !b.is_subset(&a));
            /// ```
            pub fn is_subset<$($other)+>(
                &self,
                other: &$set,
            ) -> bool {
                self.difference(other).next().is_none()
            }

            /// Returns whether all keys of the other set are in this one.
            ///
            /// ```
            #[doc = concat!("# use nunatak::", $dlht, ";")]
            #[doc = concat!("let (a, b): (", $dlht, "<u32>, ", $dlht, "<u32>) =")]
            ///     ((0..6).collect(), (0..3).collect());
            /// assert!(a.is_superset(&b));
            /// ```
            pub fn is_superset<$($other)+>(
                &self,
                other: &$set,
            ) -> bool {
                other.is_subset(self)
            }
    };
}

pub(in crate::map) use set_algebra;
