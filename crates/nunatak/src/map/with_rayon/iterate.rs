//! Parallel iterators over maps: threads walk over disjoint parts of the table.

use crate::entry::{Entries, Entry, EntryPtr, Inline, InlineKey, Naming, OwnedKey};
use crate::hash::{Hashing, IdentityCodec};
use crate::map::{BoxedMap, BoxedSet, ByteMap, InlineMap, InlineSet, PeaMultiMap};
use crate::memory::Heap;
use crate::table::pea::MultiMedium;
use crate::table::{Design, HashesWith, PairTable, Unshadowed};
use core::hash::{BuildHasher, Hash};
use rayon::iter::ParallelIterator;
use rayon::iter::plumbing::{Folder, UnindexedConsumer, UnindexedProducer, bridge_unindexed};

/// The iterator over a table's pairs.
type Pairs<'m, T> = <T as PairTable>::Iter<'m>;
type InlinePairs<'m, S, D> = Pairs<'m, <D as Design>::Table<<S as Hashing>::HashCodec>>;
type BoxedPairs<'m, D> = Pairs<'m, <D as Design>::Table<IdentityCodec>>;
type BytePairs<'m, E, D> = Pairs<'m, <D as Design>::Table<<E as Entries>::HashCodec>>;
pub(in crate::map) type MultiPairs<'m, S> =
    Pairs<'m, <Heap as MultiMedium>::Table<<S as Hashing>::HashCodec>>;

/// A parallel iterator over what `item` makes of the pairs of a table. What `pin` returns lives
/// until all threads have ended.
#[derive(Debug)]
pub(in crate::map) struct ParallelPairs<'m, T, P, F> {
    pub(in crate::map) table: &'m T,
    pub(in crate::map) pin: P,
    pub(in crate::map) item: F,
}

impl<'m, T, P, G, F, R> ParallelIterator for ParallelPairs<'m, T, P, F>
where
    T: PairTable + Sync,
    Pairs<'m, T>: Send,
    P: FnOnce() -> G + Send,
    F: Fn((u64, u64)) -> R + Send + Sync,
    R: Send,
{
    type Item = R;

    fn drive_unindexed<C: UnindexedConsumer<R>>(self, consumer: C) -> C::Result {
        let _pin = (self.pin)();
        let walk = Walk::<T, F> { pairs: self.table.iter(), item: &self.item };
        bridge_unindexed(walk, consumer)
    }
}

/// A walk over a part of a table.
struct Walk<'m, 'f, T: PairTable + 'm, F> {
    pairs: Pairs<'m, T>,
    item: &'f F,
}

impl<'m, 'f, T, F, R> UnindexedProducer for Walk<'m, 'f, T, F>
where
    T: PairTable + 'm,
    Pairs<'m, T>: Send,
    F: Fn((u64, u64)) -> R + Sync,
    R: Send,
{
    type Item = R;

    fn split(mut self) -> (Self, Option<Self>) {
        let pairs = T::split(&mut self.pairs);
        let item = self.item;
        (self, pairs.map(|pairs| Self { pairs, item }))
    }

    fn fold_with<C: Folder<R>>(self, folder: C) -> C {
        folder.consume_iter(self.pairs.map(self.item))
    }
}

impl<K, V, S: Hashing, D: HashesWith<S> + Unshadowed> InlineMap<K, V, S, D>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
    D::Table<S::HashCodec>: Sync,
{
    /// Iterates over copies of all entries in parallel, in no order, weakly consistent as
    /// [`iter`](Self::iter), also while the map grows. Threads walk over disjoint parts of the
    /// table: ranges of bins, segments, shards or blocks. (The thread that begins reads a tenth of
    /// an `IcebergMap` alone: the blocks of the second choice. A map of at most 32 entries is one
    /// part.)
    ///
    /// ```
    /// use nunatak::DlhtMap;
    /// use rayon::iter::ParallelIterator;
    /// let map: DlhtMap<u64, u64> = (0..100).map(|key| (key, 2 * key)).collect();
    /// assert_eq!(map.par_iter().map(|(_, value)| value).sum::<u64>(), 9900);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = (K, V)>
    where
        InlinePairs<'m, S, D>: Send,
    {
        let item = |(key, value)| (K::from_word(key), V::from_word(value));
        ParallelPairs { table: &self.table, pin: || (), item }
    }
}

impl<K: InlineKey + Send + Sync, S: Hashing, D: HashesWith<S> + Unshadowed> InlineSet<K, S, D>
where
    D::Table<S::HashCodec>: Sync,
{
    /// Iterates over all keys in parallel: see [`InlineMap::par_iter`].
    ///
    /// ```
    /// use nunatak::DlhtSet;
    /// use rayon::iter::ParallelIterator;
    /// let set: DlhtSet<u64> = (0..100).collect();
    /// assert_eq!(set.par_iter().sum::<u64>(), 4950);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = K>
    where
        InlinePairs<'m, S, D>: Send,
    {
        self.map.par_iter().map(|(key, ())| key)
    }
}

impl<K, V, S, D: Design> BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone + Send + Sync,
    V: Clone + Send + Sync,
    S: BuildHasher + Send + Sync,
    D::Table<IdentityCodec>: Sync,
{
    /// Iterates over copies of all entries in parallel, in no order, weakly consistent as
    /// [`iter`](Self::iter): see [`InlineMap::par_iter`]. A guard of the calling thread keeps all
    /// entries until the iteration ends.
    ///
    /// ```
    /// use nunatak::DlhtBoxedMap;
    /// use rayon::iter::ParallelIterator;
    /// let map: DlhtBoxedMap<String, u64> = (0..100).map(|key| (key.to_string(), key)).collect();
    /// assert_eq!(map.par_iter().map(|(_, value)| value).sum::<u64>(), 4950);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = (K, V)>
    where
        BoxedPairs<'m, D>: Send,
    {
        let item = |(_, word)| {
            // SAFETY: the table holds addresses of entries only. `pin` took a guard before the
            // first pair was read, and it lives until every thread has ended. Reads of other
            // threads follow it, since they were started after it (R2, R3).
            let Entry { key, value } = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
            (key.clone(), value.clone())
        };
        ParallelPairs { table: &self.table, pin: || self.guard(), item }
    }
}

impl<K, S, D: Design> BoxedSet<K, S, D>
where
    K: Hash + Eq + Clone + Send + Sync,
    S: BuildHasher + Send + Sync,
    D::Table<IdentityCodec>: Sync,
{
    /// Iterates over copies of all keys in parallel: see [`BoxedMap::par_iter`].
    ///
    /// ```
    /// use nunatak::DlhtBoxedSet;
    /// use rayon::iter::ParallelIterator;
    /// let set: DlhtBoxedSet<String> = (0..100).map(|key| key.to_string()).collect();
    /// assert_eq!(set.par_iter().filter(|key| key.len() == 1).count(), 10);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = K>
    where
        BoxedPairs<'m, D>: Send,
    {
        self.map.par_iter().map(|(key, ())| key)
    }
}

impl<E: Entries, D: Design> ByteMap<E, D>
where
    D::Table<E::HashCodec>: Sync,
    OwnedKey<E>: Send,
{
    /// Iterates over copies of all entries in parallel, in no order, weakly consistent as
    /// [`iter`](Self::iter): see [`InlineMap::par_iter`]. A guard of the calling thread keeps all
    /// entries until the iteration ends.
    ///
    /// ```
    /// use nunatak::TurboBlobMap;
    /// use rayon::iter::ParallelIterator;
    /// let map: TurboBlobMap = (0..100).map(|key| (key.to_string(), [7; 10])).collect();
    /// assert_eq!(map.par_iter().map(|(_, value)| value.len()).sum::<usize>(), 1000);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = (OwnedKey<E>, Vec<u8>)>
    where
        BytePairs<'m, E, D>: Send,
    {
        let item = |(word, value_word)| {
            // SAFETY: the table holds words of these entries only. `pin` took a guard before the
            // first pair was read, and it lives until every thread has ended. Reads of other
            // threads follow it, since they were started after it (R2, R3).
            unsafe {
                let found = self.entries.found(word, value_word);
                (E::Naming::own(E::key(&found)), E::copy(self.entries.value(value_word)))
            }
        };
        ParallelPairs { table: &self.table, pin: || self.guard(), item }
    }
}

impl<K, V, S: Hashing> PeaMultiMap<K, V, S>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
{
    /// Iterates over all keys with all of their values in parallel, in no order, weakly consistent
    /// as [`iter`](Self::iter): see [`InlineMap::par_iter`]. One thread gets all values of a key.
    ///
    /// ```
    /// use nunatak::PeaMultiMap;
    /// use rayon::iter::ParallelIterator;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value % 3, value)).collect();
    /// assert_eq!(map.par_iter().map(|(_, value)| value).sum::<u64>(), 4950);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = (K, V)>
    where
        MultiPairs<'m, S>: Send,
    {
        let item = |(key, value)| (K::from_word(key), V::from_word(value));
        ParallelPairs { table: &self.table, pin: || (), item }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::entry::Format;
    use crate::{
        DlhtBoxedMap, DlhtMap, DlhtRecordMap, IcebergBoxedMap, IcebergMap, PeaBoxedMap, PeaMap,
        TurboBlobMap, TurboBoxedMap, TurboMap,
    };
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    /// Keys that stay, and the first one that comes and goes.
    const STAYING: u64 = 8_000;

    fn key(word: u64) -> String {
        format!("a key with the number {word}")
    }

    fn in_two_threads<R: Send>(run: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap().install(run)
    }

    /// Checks that each key that stays comes once, while `insert` makes the map larger and `remove`
    /// smaller.
    fn keys_come_once<R: ParallelIterator<Item = u64>>(
        keys: impl Fn() -> R + Send + Sync,
        insert: impl Fn(u64) + Send + Sync,
        remove: impl Fn(u64) + Send + Sync,
    ) {
        (0..STAYING).for_each(&insert);
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    (STAYING..5 * STAYING).for_each(&insert);
                    (STAYING..5 * STAYING).for_each(&remove);
                }
            });
            for _ in 0..4 {
                let mut found: Vec<u64> = in_two_threads(|| keys().collect());
                found.sort_unstable();
                assert!(found.is_sorted_by(|one, next| one < next), "a key comes twice");
                assert!(
                    found.into_iter().take(STAYING as usize).eq(0..STAYING),
                    "a key is missing"
                );
            }
            ends.store(true, Ordering::Relaxed);
        });
    }

    /// Checks that two threads get items at the same time: each waits at its first item for the
    /// other one's.
    fn two_threads_get_items(keys: impl ParallelIterator<Item = u64>) {
        let (threads, met) = (Mutex::new(HashSet::<ThreadId>::new()), Condvar::new());
        in_two_threads(|| {
            keys.for_each(|_| {
                let mut seen = threads.lock().unwrap();
                if seen.insert(thread::current().id()) {
                    met.notify_all();
                    // Only a failure takes so long.
                    let limit = Duration::from_secs(60);
                    let wait = met.wait_timeout_while(seen, limit, |seen| seen.len() < 2);
                    seen = wait.unwrap().0;
                    assert_eq!(seen.len(), 2, "one thread does all the work");
                }
            });
        });
    }

    macro_rules! inline {
        ($($map:ident)*) => {$({
            let map = &$map::<u64, u64>::new();
            let keys = || map.par_iter().map(|(key, value)| {
                assert_eq!(value, !key);
                key
            });
            keys_come_once(keys, |key| _ = map.insert(key, !key), |key| _ = map.remove(&key));
            map.clear();
            (0..STAYING).for_each(|key| _ = map.insert(key, !key));
            two_threads_get_items(keys());
        })*};
    }

    macro_rules! boxed {
        ($($map:ident)*) => {$({
            let map = &$map::<String, u64>::new();
            let keys = || map.par_iter().map(|(text, number)| {
                assert_eq!(text, key(number));
                number
            });
            let insert = |number| _ = map.put(key(number), number);
            keys_come_once(keys, insert, |number| _ = map.remove(&key(number)));
            map.clear();
            (0..STAYING).for_each(insert);
            two_threads_get_items(keys());
        })*};
    }

    macro_rules! bytes {
        ($($map:ty)*) => {$({
            let map = &<$map>::new();
            let keys = || map.par_iter().map(|(key, value)| {
                assert_eq!(key, value);
                u64::from_le_bytes(key.try_into().unwrap())
            });
            let insert = |key: u64| {
                map.put(&key.to_le_bytes(), &key.to_le_bytes()).unwrap();
            };
            keys_come_once(keys, insert, |key| _ = map.delete(&key.to_le_bytes()));
            map.clear();
            (0..STAYING).for_each(insert);
            two_threads_get_items(keys());
        })*};
    }

    #[test]
    fn inline_entries_come_once() {
        inline!(DlhtMap IcebergMap PeaMap TurboMap);
        let map = &PeaMultiMap::<u64, u64>::new();
        let keys = || map.par_iter().map(|(key, _)| key);
        keys_come_once(keys, |key| map.insert(key, 1), |key| _ = map.remove_all(&key));
        two_threads_get_items(keys());
    }

    #[test]
    fn boxed_entries_come_once() {
        boxed!(DlhtBoxedMap IcebergBoxedMap PeaBoxedMap TurboBoxedMap);
    }

    #[test]
    fn byte_strings_come_once() {
        bytes!(TurboBlobMap DlhtRecordMap<Format<8, 8>>);
    }
}
