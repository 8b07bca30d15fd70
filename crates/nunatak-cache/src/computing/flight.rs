//! A flight: a computation that others wait for.

use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, lock, thread_local};
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// What the followers get: the value, or nothing if the computation failed. Then they try again.
pub(crate) type Outcome<V> = Option<Arc<V>>;

#[derive(Debug)]
struct Waiting<V> {
    outcome: Option<Outcome<V>>,
    /// Of futures that wait, each with its number.
    wakers: Vec<(u64, Waker)>,
    next_number: u64,
}

#[derive(Debug)]
pub(crate) struct Flight<K, V> {
    pub(super) hash: u64,
    pub(super) key: K,
    /// Whether the key was changed since the computation began, or the leader has committed
    /// (invariant 4).
    outdated: AtomicBool,
    waiting: Mutex<Waiting<V>>,
    ended: Condvar,
}

impl<K, V> Flight<K, V> {
    pub(super) fn new(hash: u64, key: K) -> Self {
        let waiting = Waiting { outcome: None, wakers: Vec::new(), next_number: 0 };
        let (waiting, ended) = (Mutex::new(waiting), Condvar::new());
        Self { hash, key, outdated: AtomicBool::new(false), waiting, ended }
    }

    /// The key is about to be changed.
    pub(super) fn outdate(&self) {
        // AcqRel: invariant 4. If the leader was first, its value in the map is seen by the change
        // that follows.
        self.outdated.swap(true, Ordering::AcqRel);
    }

    /// Returns whether the value, which is in the map, may be shown: no change came before.
    pub(crate) fn commit(&self) -> bool {
        // AcqRel: as in `outdate`.
        !self.outdated.swap(true, Ordering::AcqRel)
    }

    /// Ends the flight, which can't be joined any more.
    pub(super) fn end(&self, outcome: Outcome<V>) {
        let wakers = {
            let mut waiting = lock(&self.waiting);
            waiting.outcome = Some(outcome);
            core::mem::take(&mut waiting.wakers)
        };
        self.ended.notify_all();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Blocks the thread until the flight has ended.
    ///
    /// # Panics
    /// If this thread is inside of the computation that it would wait for.
    pub(crate) fn wait(&self) -> Outcome<V> {
        self.refuse_own();
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(outcome) = &waiting.outcome {
                return outcome.clone();
            }
            waiting = self.ended.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Returns a future of the end of the flight.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub(crate) fn ended(self: Arc<Self>) -> Ended<K, V> {
        self.refuse_own();
        Ended { flight: self, number: None }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    fn refuse_own(&self) {
        let own = COMPUTING.with(|computing| computing.borrow().contains(&self.address()));
        assert!(!own, "a computation asks the cache for its own key, and would wait for itself");
    }
}

/// A follower's future.
#[derive(Debug)]
pub(crate) struct Ended<K, V> {
    flight: Arc<Flight<K, V>>,
    /// Of its waker.
    number: Option<u64>,
}

impl<K, V> Future for Ended<K, V> {
    type Output = Outcome<V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloned before the lock, and the old one is dropped after it (invariant 5).
        let mut waker = Some(context.waker().clone());
        let mut waiting = lock(&self.flight.waiting);
        if let Some(outcome) = &waiting.outcome {
            let outcome = outcome.clone();
            drop(waiting);
            return Poll::Ready(outcome);
        }
        let number = self.number.unwrap_or(waiting.next_number);
        match waiting.wakers.iter_mut().find(|(of, _)| *of == number) {
            Some((_, old)) => core::mem::swap(old, waker.as_mut().expect("cloned above")),
            None => {
                waiting.wakers.extend(waker.take().map(|waker| (number, waker)));
                waiting.next_number += 1;
            }
        }
        drop(waiting);
        self.number = Some(number);
        Poll::Pending
    }
}

impl<K, V> Drop for Ended<K, V> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut waiting = lock(&self.flight.waiting);
            let at = waiting.wakers.iter().position(|(of, _)| *of == number);
            let waker = at.map(|at| waiting.wakers.swap_remove(at));
            drop(waiting);
            drop(waker);
        }
    }
}

thread_local! {
    /// The addresses of the flights whose computations run on this thread, outermost first.
    static COMPUTING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread runs a flight's computation, or polls it.
#[derive(Debug)]
pub(crate) struct Computing;

impl Computing {
    pub(crate) fn of<K, V>(flight: &Flight<K, V>) -> Self {
        COMPUTING.with(|computing| computing.borrow_mut().push(flight.address()));
        Self
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        COMPUTING.with(|computing| computing.borrow_mut().pop());
    }
}
