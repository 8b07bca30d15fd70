//! What all maps have in common, written once: the methods of a map as a whole with their
//! documentation, and the implementation of [`ConcurrentMap`](super::ConcurrentMap) by a map's own
//! methods.
//!
//! A new method of all maps is added to the trait, to both macros here, and to the lists of their
//! callers. The test `tests/methods.rs` compares the lists with the table of methods in the guide.

/// Methods of a map as a whole, which call its table (or the map that it wraps), with their
/// documentation. The caller names the public type for the example, the expression of an empty map,
/// the noun for its entries, the field to call, the type of its statistics, and the methods.
macro_rules! whole_map {
    ($type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty:
     $($method:ident)*) => {
        $(whole_map! { @$method $type, $new, $entries, $field, $stats })*
    };

    (@len $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        #[doc = concat!("How many ", $entries, " there are: exact when nobody else changes them.")]
        /// Touches one cache line for each thread that ever used the map.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $type, ";")]
        #[doc = concat!("assert_eq!(", $new, ".len(), 0);")]
        /// ```
        pub fn len(&self) -> usize {
            self.$field.len()
        }
    };

    (@is_empty $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        #[doc = concat!("Whether there are no ", $entries, ". Touches what [`len`](Self::len) does.")]
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $type, ";")]
        #[doc = concat!("assert!(", $new, ".is_empty());")]
        /// ```
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    };

    (@reserve $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        #[doc = concat!("Makes room in the table for `additional` more ", $entries, ": inserting")]
        /// them starts no resize, unless too many hashes collide by chance (inserts do not fail
        /// then).
        ///
        /// # Errors
        /// If memory is refused; the map is as it was.
        ///
        /// ```
        #[doc = concat!("# use nunatak::{Error, ", $type, "};")]
        #[doc = concat!("let map = ", $new, ";")]
        /// map.reserve(100_000)?;
        /// assert_eq!(map.reserve(usize::MAX), Err(Error::CapacityOverflow));
        /// # Ok::<(), Error>(())
        /// ```
        pub fn reserve(&self, additional: usize) -> Result<(), Error> {
            self.$field.reserve(additional)
        }
    };

    // In a process of its own: readers of other examples would keep the memory.
    (@shrink_to_fit $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        #[doc = concat!("Gives memory back that the ", $entries, " do not need. What another")]
        /// thread may still read is given back when it has ended its operation.
        ///
        /// # Errors
        /// If memory for the smaller table is refused; the map is as it was.
        ///
        /// ```standalone_crate
        #[doc = concat!("# use nunatak::", $type, ";")]
        #[doc = concat!("let map = ", $new, ";")]
        /// map.reserve(1 << 20)?;
        /// let before = map.memory_usage().mapped;
        /// map.shrink_to_fit()?;
        /// assert!(map.memory_usage().mapped < before / 10);
        /// # Ok::<(), nunatak::Error>(())
        /// ```
        pub fn shrink_to_fit(&self) -> Result<(), Error> {
            self.$field.shrink_to_fit()
        }
    };

    (@load_factor $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        #[doc = concat!("The share of the table's slots that are taken by ", $entries, ".")]
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $type, ";")]
        #[doc = concat!("assert_eq!(", $new, ".load_factor(), 0.0);")]
        /// ```
        pub fn load_factor(&self) -> f64 {
            self.$field.load_factor()
        }
    };

    (@memory_usage $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        /// Returns how many bytes the table has mapped or allocated, and how many of them are resident.
        /// (All allocated bytes count as resident.) Both include memory that a resize needs, and memory
        /// that waits to be given back. Entries that the map keeps in memory of the allocator are not
        /// counted.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $type, ";")]
        #[doc = concat!("assert!(", $new, ".memory_usage().mapped > 0);")]
        /// ```
        pub fn memory_usage(&self) -> MemoryUsage {
            self.$field.memory_usage()
        }
    };

    (@stats $type:literal, $new:literal, $entries:literal, $field:ident, $stats:ty) => {
        /// Returns the figures that the paper of the map's design reports. Reads the whole table.
        ///
        /// ```
        #[doc = concat!("# use nunatak::", $type, ";")]
        #[doc = concat!("println!(\"{:?}\", ", $new, ".stats());")]
        /// ```
        pub fn stats(&self) -> $stats {
            self.$field.stats()
        }
    };
}

/// Methods of [`ConcurrentMap`](super::ConcurrentMap) that are the map's own methods of the same
/// name and parameters.
macro_rules! by_own_methods {
    ($key:ty, $value:ty, $stats:ty: $($method:ident)*) => {
        $(by_own_methods! { @$method $key, $value, $stats })*
    };

    (@get $key:ty, $value:ty, $stats:ty) => {
        #[inline(always)]
        fn get(&self, key: &$key) -> Option<$value> {
            self.get(key)
        }
    };
    (@contains_key $key:ty, $value:ty, $stats:ty) => {
        #[inline(always)]
        fn contains_key(&self, key: &$key) -> bool {
            self.contains_key(key)
        }
    };
    (@insert $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn insert(&self, key: $key, value: $value) -> Option<$value> {
            self.insert(key, value)
        }
    };
    (@try_insert $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn try_insert(&self, key: $key, value: $value) -> Result<(), $value> {
            self.try_insert(key, value)
        }
    };
    (@update $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn update(&self, key: &$key, value: $value) -> Option<$value> {
            self.update(key, value)
        }
    };
    (@compare_exchange $key:ty, $value:ty, $stats:ty) => {
        fn compare_exchange(
            &self,
            key: &$key,
            current: &$value,
            new: $value,
        ) -> Result<$value, Option<$value>>
        where
            $value: PartialEq,
        {
            self.compare_exchange(key, current, new)
        }
    };
    (@fetch_update $key:ty, $value:ty, $stats:ty) => {
        fn fetch_update<F>(&self, key: &$key, f: F) -> Result<$value, Option<$value>>
        where
            F: FnMut(&$value) -> Option<$value>,
        {
            self.fetch_update(key, f)
        }
    };
    (@compute $key:ty, $value:ty, $stats:ty) => {
        fn compute<F>(&self, key: $key, f: F) -> Option<$value>
        where
            F: FnMut(Option<&$value>) -> Compute<$value>,
        {
            self.compute(key, f)
        }
    };
    (@get_or_insert_with $key:ty, $value:ty, $stats:ty) => {
        fn get_or_insert_with<F: FnOnce() -> $value>(&self, key: $key, make: F) -> $value {
            self.get_or_insert_with(key, make)
        }
    };
    (@remove $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn remove(&self, key: &$key) -> Option<$value> {
            self.remove(key)
        }
    };
    (@remove_if $key:ty, $value:ty, $stats:ty) => {
        fn remove_if<F: FnMut(&$value) -> bool>(&self, key: &$key, condition: F) -> Option<$value> {
            self.remove_if(key, condition)
        }
    };
    (@get_many $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn get_many(
            &self,
            keys: &[$key],
            values: &mut [Option<$value>],
        ) -> Result<usize, BatchError> {
            self.get_many(keys, values)
        }
    };
    (@insert_many $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn insert_many(
            &self,
            entries: &[($key, $value)],
            previous: &mut [Option<$value>],
        ) -> Result<usize, BatchError> {
            self.insert_many(entries, previous)
        }
    };
    (@update_many $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn update_many(
            &self,
            entries: &[($key, $value)],
            previous: &mut [Option<$value>],
        ) -> Result<usize, BatchError> {
            self.update_many(entries, previous)
        }
    };
    (@remove_many $key:ty, $value:ty, $stats:ty) => {
        #[inline]
        fn remove_many(
            &self,
            keys: &[$key],
            removed: &mut [Option<$value>],
        ) -> Result<usize, BatchError> {
            self.remove_many(keys, removed)
        }
    };
    (@execute $key:ty, $value:ty, $stats:ty) => {
        fn execute(&self, operations: &mut [Op<$key, $value>], stop: Stop) -> usize {
            self.execute(operations, stop)
        }
    };
    (@prefetch $key:ty, $value:ty, $stats:ty) => {
        #[inline(always)]
        fn prefetch(&self, key: &$key) {
            self.prefetch(key);
        }
    };
    (@iter $key:ty, $value:ty, $stats:ty) => {
        fn iter(&self) -> impl Iterator<Item = ($key, $value)> {
            self.iter()
        }
    };
    (@snapshot $key:ty, $value:ty, $stats:ty) => {
        fn snapshot(&self) -> Result<impl Iterator<Item = ($key, $value)>, Error> {
            self.snapshot()
        }
    };
    (@retain $key:ty, $value:ty, $stats:ty) => {
        fn retain<F: FnMut(&$key, &$value) -> bool>(&self, keep: F) {
            self.retain(keep);
        }
    };
    (@clear $key:ty, $value:ty, $stats:ty) => {
        fn clear(&self) {
            self.clear();
        }
    };
    (@len $key:ty, $value:ty, $stats:ty) => {
        fn len(&self) -> usize {
            self.len()
        }
    };
    (@reserve $key:ty, $value:ty, $stats:ty) => {
        fn reserve(&self, additional: usize) -> Result<(), Error> {
            self.reserve(additional)
        }
    };
    (@shrink_to_fit $key:ty, $value:ty, $stats:ty) => {
        fn shrink_to_fit(&self) -> Result<(), Error> {
            self.shrink_to_fit()
        }
    };
    (@load_factor $key:ty, $value:ty, $stats:ty) => {
        fn load_factor(&self) -> f64 {
            self.load_factor()
        }
    };
    (@memory_usage $key:ty, $value:ty, $stats:ty) => {
        fn memory_usage(&self) -> MemoryUsage {
            self.memory_usage()
        }
    };
    (@stats $key:ty, $value:ty, $stats:ty) => {
        type Stats = $stats;

        fn stats(&self) -> $stats {
            self.stats()
        }
    };
}

pub(in crate::map) use {by_own_methods, whole_map};
