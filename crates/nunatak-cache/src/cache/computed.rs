//! Values that are computed when they are missing.

use super::{Cache, Stored};
use crate::computing::{Computing, Flight, Joined, Leader};
use crate::counters::Count;
use crate::sync::Arc;
use core::borrow::Borrow;
use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::hash::{BuildHasher, Hash};
use core::pin::pin;

/// What a caller does next.
enum Step<'c, K, V> {
    Return(V),
    Wait(Arc<Flight<K, V>>),
    Compute(Leader<'c, K, V>),
}

impl<K: Hash + Eq, V: Clone, S: BuildHasher> Cache<K, V, S> {
    /// Returns a copy of the key's value, or of the result of `make`, which is stored.
    ///
    /// As [`get_or_try_insert_with`](Self::get_or_try_insert_with), with a `make` that does not fail.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<String, usize> = Cache::new(10);
    /// assert_eq!(cache.get_or_insert_with("ice", || 3), 3);
    /// assert_eq!(cache.get_or_insert_with("ice", || unreachable!()), 3);
    /// ```
    pub fn get_or_insert_with<Q>(&self, key: &Q, make: impl FnOnce() -> V) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let made = self.get_or_try_insert_with(key, || Ok::<V, Infallible>(make()));
        made.unwrap_or_else(|never| match never {})
    }

    /// Returns a copy of the key's value, or of the result of `make`, which is stored.
    ///
    /// Of all threads and futures that ask for the key at the same time, one runs its `make`, while
    /// the cache holds nothing. The others wait, and get copies of the same value. If `make` fails or
    /// panics, its caller gets the error or the panic, and one of those that wait runs its own `make`.
    ///
    /// If the key is inserted while `make` runs, that value stays. If the key is changed in any way
    /// meanwhile (inserted, removed, cleared), the computed value goes to the callers that wait for
    /// it, and is not stored, since it may be older than the change. So an entry that was removed does
    /// not come back.
    ///
    /// A hit costs as a [`get`](Self::get). A miss copies the key twice and the value once, and once
    /// for each caller that waits, and takes a lock of the list of computations twice.
    ///
    /// # Errors
    /// What `make` returned.
    ///
    /// # Panics
    /// If `make` asks for its own key, on its own thread: it would wait for itself. (Computations
    /// that wait for each other in a circle, over several keys or threads, wait for ever.) Also as
    /// [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<String, u64> = Cache::new(10);
    /// let parse = |text: &str| cache.get_or_try_insert_with(text, || text.parse::<u64>());
    /// assert_eq!(parse("49"), Ok(49));
    /// assert!(parse("ice").is_err());
    /// ```
    pub fn get_or_try_insert_with<Q, E>(
        &self,
        key: &Q,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let hash = self.hash(key);
        loop {
            match self.step(hash, key) {
                Step::Return(value) => return Ok(value),
                Step::Wait(flight) => {
                    if let Some(value) = flight.wait() {
                        return Ok((*value).clone());
                    }
                }
                Step::Compute(leader) => {
                    let attempt = self.attempt();
                    let value = {
                        let _computing = Computing::of(leader.flight());
                        make()?
                    };
                    attempt.succeeds();
                    return Ok(self.store_computed(hash, key, leader, value));
                }
            }
        }
    }

    /// [`get_or_try_insert_async`](Self::get_or_try_insert_async), with a future that does not fail.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     let mut f = std::pin::pin!(f);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(output) = f.as_mut().poll(&mut context) {
    /// #             return output;
    /// #         }
    /// #     }
    /// # }
    /// # block_on(async {
    /// let cache: Cache<String, u64> = Cache::new(10);
    /// assert_eq!(cache.get_or_insert_async("ice", async || 3).await, 3);
    /// # });
    /// ```
    pub async fn get_or_insert_async<Q, F>(&self, key: &Q, make: impl FnOnce() -> F) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = V>,
    {
        let make = || {
            let made = make();
            async { Ok::<V, Infallible>(made.await) }
        };
        self.get_or_try_insert_async(key, make).await.unwrap_or_else(|never| match never {})
    }

    /// [`get_or_try_insert_with`](Self::get_or_try_insert_with) for async code, on any executor.
    ///
    /// Callers that wait are woken when the computation ends. If the future of the computation is
    /// dropped, one of them runs its own. Threads may wait for a future and futures for a thread; but
    /// a thread that waits blocks, so async code should call this method only. The future of `make`
    /// is polled by the caller's own task.
    ///
    /// The future is `Send` if keys, values, the hasher and the future of `make` are.
    ///
    /// # Errors
    /// What the future of `make` returned.
    ///
    /// # Panics
    /// If the future of `make` asks for its own key within the same task.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// # fn block_on<F: Future>(f: F) -> F::Output {
    /// #     let mut f = std::pin::pin!(f);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(output) = f.as_mut().poll(&mut context) {
    /// #             return output;
    /// #         }
    /// #     }
    /// # }
    /// # block_on(async {
    /// let cache: Cache<String, u64> = Cache::new(10);
    /// let parse = async |text: &str| cache.get_or_try_insert_async(text, async || text.parse::<u64>()).await;
    /// assert_eq!(parse("49").await, Ok(49));
    /// assert!(parse("ice").await.is_err());
    /// # });
    /// ```
    pub async fn get_or_try_insert_async<Q, E, F>(
        &self,
        key: &Q,
        make: impl FnOnce() -> F,
    ) -> Result<V, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future<Output = Result<V, E>>,
    {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        let hash = self.hash(key);
        loop {
            match self.step(hash, key) {
                Step::Return(value) => return Ok(value),
                Step::Wait(flight) => {
                    if let Some(value) = flight.ended().await {
                        return Ok((*value).clone());
                    }
                }
                Step::Compute(leader) => {
                    let attempt = self.attempt();
                    let computing = Computing::of(leader.flight());
                    let mut made = pin!(make());
                    drop(computing);
                    let value = poll_fn(|context| {
                        let _computing = Computing::of(leader.flight());
                        made.as_mut().poll(context)
                    });
                    let value = value.await?;
                    attempt.succeeds();
                    return Ok(self.store_computed(hash, key, leader, value));
                }
            }
        }
    }

    /// The key was missing: joins the computation of its value.
    fn step<Q>(&self, hash: u64, key: &Q) -> Step<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.flights.join(hash, key.to_owned()) {
            Joined::Follower(flight) => Step::Wait(flight),
            Joined::Leader(leader) => match self.peek_hashed(hash, key) {
                Some(value) => Step::Return(leader.succeed(value)),
                None => Step::Compute(leader),
            },
        }
    }

    fn store_computed<Q>(&self, hash: u64, key: &Q, leader: Leader<'_, K, V>, value: V) -> V
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + ?Sized,
    {
        match self.store_hidden(hash, key.to_owned(), value.clone()) {
            Stored::Hidden(token) if leader.flight().commit() => self.show(token),
            Stored::Hidden(token) => self.withdraw(token),
            Stored::Refused => {}
            Stored::Present(newer) => return leader.succeed(newer),
        }
        leader.succeed(value)
    }

    fn attempt(&self) -> Attempt<'_, K, V, S> {
        self.counters.count(Count::Computation);
        Attempt { cache: self }
    }
}

/// A computation that runs. Dropping it counts it as failed.
struct Attempt<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
}

impl<K, V, S> Attempt<'_, K, V, S> {
    fn succeeds(self) {
        core::mem::forget(self);
    }
}

impl<K, V, S> Drop for Attempt<'_, K, V, S> {
    fn drop(&mut self) {
        self.cache.counters.count(Count::FailedComputation);
    }
}
