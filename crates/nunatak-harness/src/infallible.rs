//! Maps in files as [`ConcurrentMap`]s, for suites that expect no errors. An error is a panic.

use nunatak::durable::{BlobDesign, BlobsInFile, DurableDesign, FileMap, Map};
use nunatak::{BatchError, Compute, ConcurrentMap, Error, MemoryUsage, Op, Request, Stop};
use std::ops::Deref;

/// A map in a file whose errors are panics.
#[derive(Debug)]
pub struct Infallible<M>(pub M);

impl<M> Deref for Infallible<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.0
    }
}

#[track_caller]
fn done<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(done) => done,
        Err(error) => panic!("{error}"),
    }
}

fn batch(requests: usize, results: usize) -> Result<(), BatchError> {
    if results < requests { Err(BatchError { requests, results }) } else { Ok(()) }
}

/// The methods that both kinds of maps take from [`FileMap`](nunatak::durable::FileMap).
macro_rules! of_file_map {
    ($key:ty, $value:ty) => {
        fn iter(&self) -> impl Iterator<Item = ($key, $value)> {
            self.0.iter()
        }

        fn snapshot(&self) -> Result<impl Iterator<Item = ($key, $value)>, Error> {
            self.0.snapshot()
        }

        fn clear(&self) {
            done(self.0.clear());
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn reserve(&self, additional: usize) -> Result<(), Error> {
            self.0.reserve(additional)
        }

        fn shrink_to_fit(&self) -> Result<(), Error> {
            self.0.shrink_to_fit()
        }

        fn load_factor(&self) -> f64 {
            self.0.load_factor()
        }

        fn memory_usage(&self) -> MemoryUsage {
            self.0.memory_usage()
        }

        fn stats(&self) -> Self::Stats {
            self.0.stats()
        }
    };
}

impl<K, V, D> ConcurrentMap<K, V> for Infallible<Map<K, V, D>>
where
    K: nunatak::entry::InlineKey,
    V: nunatak::entry::Inline,
    D: DurableDesign,
{
    type Stats = D::Stats;

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    fn insert(&self, key: K, value: V) -> Option<V> {
        done(self.0.insert(key, value))
    }

    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        done(self.0.try_insert(key, value))
    }

    fn update(&self, key: &K, value: V) -> Option<V> {
        done(self.0.update(key, value))
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        done(self.0.compare_exchange(key, current, new))
    }

    fn fetch_update<F: FnMut(&V) -> Option<V>>(&self, key: &K, f: F) -> Result<V, Option<V>> {
        done(self.0.fetch_update(key, f))
    }

    fn compute<F: FnMut(Option<&V>) -> Compute<V>>(&self, key: K, f: F) -> Option<V> {
        done(self.0.compute(key, f))
    }

    fn remove(&self, key: &K) -> Option<V> {
        done(self.0.remove(key))
    }

    fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, condition: F) -> Option<V> {
        done(self.0.remove_if(key, condition))
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.0.get_many(keys, values)
    }

    fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        batch(entries.len(), previous.len())?;
        Ok(done(self.0.insert_many(entries, previous)))
    }

    fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        batch(entries.len(), previous.len())?;
        Ok(done(self.0.update_many(entries, previous)))
    }

    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        batch(keys.len(), removed.len())?;
        Ok(done(self.0.remove_many(keys, removed)))
    }

    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        done(self.0.execute(operations, stop))
    }

    fn prefetch(&self, key: &K) {
        self.0.prefetch(key);
    }

    fn retain<F: FnMut(&K, &V) -> bool>(&self, keep: F) {
        done(self.0.retain(keep));
    }

    of_file_map!(K, V);
}

type Bytes = Vec<u8>;

impl<D: BlobDesign> ConcurrentMap<Bytes, Bytes> for Infallible<FileMap<BlobsInFile<D>>> {
    type Stats = D::Stats;

    fn get(&self, key: &Bytes) -> Option<Bytes> {
        self.0.get(key)
    }

    fn contains_key(&self, key: &Bytes) -> bool {
        self.0.contains_key(key)
    }

    fn insert(&self, key: Bytes, value: Bytes) -> Option<Bytes> {
        done(self.0.insert(&key, &value))
    }

    fn try_insert(&self, key: Bytes, value: Bytes) -> Result<(), Bytes> {
        done(self.0.try_insert(&key, &value))
    }

    fn update(&self, key: &Bytes, value: Bytes) -> Option<Bytes> {
        done(self.0.update(key, &value))
    }

    fn compare_exchange(
        &self,
        key: &Bytes,
        current: &Bytes,
        new: Bytes,
    ) -> Result<Bytes, Option<Bytes>> {
        done(self.0.compare_exchange(key, current, &new))
    }

    fn fetch_update<F>(&self, key: &Bytes, mut f: F) -> Result<Bytes, Option<Bytes>>
    where
        F: FnMut(&Bytes) -> Option<Bytes>,
    {
        done(self.0.fetch_update(key, |value| f(&value.to_vec())))
    }

    fn compute<F>(&self, key: Bytes, mut f: F) -> Option<Bytes>
    where
        F: FnMut(Option<&Bytes>) -> Compute<Bytes>,
    {
        done(self.0.compute(&key, |value| f(value.map(<[u8]>::to_vec).as_ref())))
    }

    fn remove(&self, key: &Bytes) -> Option<Bytes> {
        done(self.0.remove(key))
    }

    fn remove_if<F: FnMut(&Bytes) -> bool>(&self, key: &Bytes, mut condition: F) -> Option<Bytes> {
        done(self.0.remove_if(key, |value| condition(&value.to_vec())))
    }

    fn get_many(&self, keys: &[Bytes], values: &mut [Option<Bytes>]) -> Result<usize, BatchError> {
        batch(keys.len(), values.len())?;
        let (guard, mut present) = (self.0.pin(), 0);
        guard.get_many(keys, |at, value| {
            present += usize::from(value.is_some());
            values[at] = value.map(<[u8]>::to_vec);
        });
        Ok(present)
    }

    fn insert_many(
        &self,
        entries: &[(Bytes, Bytes)],
        previous: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        batch(entries.len(), previous.len())?;
        let mut fresh = 0;
        for ((key, value), previous) in entries.iter().zip(previous) {
            *previous = done(self.0.insert(key, value));
            fresh += usize::from(previous.is_none());
        }
        Ok(fresh)
    }

    fn update_many(
        &self,
        entries: &[(Bytes, Bytes)],
        previous: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        batch(entries.len(), previous.len())?;
        let mut present = 0;
        for ((key, value), previous) in entries.iter().zip(previous) {
            *previous = done(self.0.update(key, value));
            present += usize::from(previous.is_some());
        }
        Ok(present)
    }

    fn remove_many(
        &self,
        keys: &[Bytes],
        removed: &mut [Option<Bytes>],
    ) -> Result<usize, BatchError> {
        batch(keys.len(), removed.len())?;
        let mut present = 0;
        for (key, removed) in keys.iter().zip(removed) {
            *removed = done(self.0.remove(key));
            present += usize::from(removed.is_some());
        }
        Ok(present)
    }

    fn execute(&self, operations: &mut [Op<Bytes, Bytes>], stop: Stop) -> usize {
        let mut executed = 0;
        for Op { request, outcome } in operations {
            let before = match &request {
                Request::Get(key) => self.0.get(key),
                Request::Insert(key, value) => done(self.0.insert(key, value)),
                Request::TryInsert(key, value) => done(self.0.try_insert(key, value)).err(),
                Request::Update(key, value) => done(self.0.update(key, value)),
                Request::Remove(key) => done(self.0.remove(key)),
            };
            *outcome = request.outcome(before);
            executed += 1;
            if stop != Stop::Never && !outcome.is_success() {
                break;
            }
        }
        executed
    }

    fn prefetch(&self, key: &Bytes) {
        self.0.prefetch(key);
    }

    fn retain<F: FnMut(&Bytes, &Bytes) -> bool>(&self, mut keep: F) {
        done(self.0.retain(|key, value| keep(&key.to_vec(), &value.to_vec())));
    }

    of_file_map!(Bytes, Bytes);
}
