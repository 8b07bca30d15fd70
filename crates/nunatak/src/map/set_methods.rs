//! The methods of sets whose keys are copied: those of inline sets and of wide sets, written once with their
//! documentation. (Keys of boxed sets are found by borrowed forms.)

/// The methods of a set that wraps a map without values: the name of a set for the examples, and the parameters of the
/// type.
macro_rules! set_methods {
    ($set:literal, [$($parameter:ident),+]) => {
        /// Returns whether the key is in the set. Costs a get of the design's map, and writes nothing.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1, 2].into_iter().collect();")]
        /// assert!(set.contains(&1) && !set.contains(&3));
        /// ```
        #[inline]
        pub fn contains(&self, key: &K) -> bool {
            self.map.contains_key(key)
        }

        /// Inserts the key; returns false if it was in the set already.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set = ", $set, "::<u8>::new();")]
        /// assert!(set.insert(1) && !set.insert(1));
        /// ```
        #[inline]
        pub fn insert(&self, key: K) -> bool {
            self.map.try_insert(key, ()).is_ok()
        }

        /// Removes the key; returns false if it was not in the set.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1].into_iter().collect();")]
        /// assert!(set.remove(&1) && !set.remove(&1));
        /// ```
        #[inline]
        pub fn remove(&self, key: &K) -> bool {
            self.map.remove(key).is_some()
        }

        /// Looks up all keys, in order, with overlapped memory latencies, and returns how many are in
        /// the set.
        ///
        /// # Errors
        /// If `present` is shorter than `keys`; nothing was done.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1, 3].into_iter().collect();")]
        /// let mut present = [None; 3];
        /// assert_eq!(set.contains_many(&[1, 2, 3], &mut present), Ok(2));
        /// assert_eq!(present, [Some(()), None, Some(())]);
        /// ```
        #[inline]
        pub fn contains_many(
            &self,
            keys: &[K],
            present: &mut [Option<()>],
        ) -> Result<usize, BatchError> {
            self.map.get_many(keys, present)
        }

        /// Inserts all keys, in order, and returns how many were not in the set. `before` holds for
        /// each key whether it was.
        ///
        /// # Errors
        /// If `before` is shorter than `keys`; nothing was done.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1].into_iter().collect();")]
        /// let mut before = [None; 2];
        /// assert_eq!(set.insert_many(&[1, 2], &mut before), Ok(1));
        /// assert_eq!(before, [Some(()), None]);
        /// ```
        pub fn insert_many(&self, keys: &[K], before: &mut [Option<()>]) -> Result<usize, BatchError> {
            let entries: Vec<(K, ())> = keys.iter().map(|&key| (key, ())).collect();
            self.map.insert_many(&entries, before)
        }

        /// Removes all keys, in order, and returns how many were in the set.
        ///
        /// # Errors
        /// If `removed` is shorter than `keys`; nothing was done.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1].into_iter().collect();")]
        /// let mut removed = [None; 2];
        /// assert_eq!(set.remove_many(&[1, 2], &mut removed), Ok(1));
        /// assert_eq!(removed, [Some(()), None]);
        /// ```
        #[inline]
        pub fn remove_many(&self, keys: &[K], removed: &mut [Option<()>]) -> Result<usize, BatchError> {
            self.map.remove_many(keys, removed)
        }

        /// Executes mixed operations in the caller's order and returns how many were executed; see
        /// [`ConcurrentMap::execute`](crate::ConcurrentMap::execute). `TryInsert` fails if the key is
        /// in the set, `Remove` and `Get` if it is not. So a set of locks takes a lock by inserting its
        /// key.
        ///
        /// ```
        #[doc = concat!("# use nunatak::{", $set, ", Op, Request, Stop};")]
        #[doc = concat!("let locked: ", $set, "<u64> = [7].into_iter().collect();")]
        /// let mut locks = [3, 7, 9].map(|key| Op::new(Request::TryInsert(key, ())));
        /// assert_eq!(locked.execute(&mut locks, Stop::AtFirstFailure), 2);
        /// assert!(locks[0].outcome.is_success() && !locked.contains(&9));
        /// ```
        #[inline]
        pub fn execute(&self, operations: &mut [Op<K, ()>], stop: Stop) -> usize {
            self.map.execute(operations, stop)
        }

        /// Prefetches the lines that an operation on the key touches first.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("", $set, "::<u64>::new().prefetch(&7);")]
        /// ```
        #[inline]
        pub fn prefetch(&self, key: &K) {
            self.map.prefetch(key);
        }

        /// Iterates over all keys, weakly consistent.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1, 3].into_iter().collect();")]
        /// assert_eq!(set.iter().map(u32::from).sum::<u32>(), 4);
        /// ```
        pub fn iter(&self) -> impl Iterator<Item = K> {
            self.map.iter().map(|(key, ())| key)
        }

        /// Takes a consistent cut of all keys; see
        /// [`ConcurrentMap::snapshot`](crate::ConcurrentMap::snapshot).
        ///
        /// # Errors
        /// If memory for the cut is refused.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = [1, 3].into_iter().collect();")]
        /// assert_eq!(set.snapshot()?.count(), 2);
        /// # Ok::<(), nunatak::Error>(())
        /// ```
        pub fn snapshot(&self) -> Result<impl Iterator<Item = K> + use<$($parameter),+>, Error> {
            Ok(self.map.snapshot()?.map(|(key, ())| key))
        }

        /// Removes the keys that `keep` rejects.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = (0..10).collect();")]
        /// set.retain(|key| key % 2 == 0);
        /// assert_eq!(set.len(), 5);
        /// ```
        pub fn retain<F: FnMut(&K) -> bool>(&self, mut keep: F) {
            self.map.retain(|key, ()| keep(key));
        }

        /// Removes every key that the walk reaches.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $set, ";")]
        #[doc = concat!("let set: ", $set, "<u8> = (0..10).collect();")]
        /// set.clear();
        /// assert!(set.is_empty());
        /// ```
        pub fn clear(&self) {
            self.map.clear();
        }
    };
}

pub(in crate::map) use set_methods;
