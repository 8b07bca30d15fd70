//! Many threads on one map that grows and shrinks, and what must hold meanwhile.

pub mod conservation;
pub mod cuts;
pub mod memory;
pub mod presence;
pub mod threads;
pub mod winners;

use crate::random::Random;
use crate::sample::Sample;
use nunatak::ConcurrentMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs `work` on so many threads, all from the same moment, each with its number. Returns the
/// results.
///
/// # Panics
/// If a thread panics, with its message.
pub fn together<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let waiting = AtomicUsize::new(threads);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|number| {
                let (waiting, work) = (&waiting, &work);
                scope.spawn(move || {
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    while waiting.load(Ordering::SeqCst) > 0 {
                        thread::yield_now();
                    }
                    work(number)
                })
            })
            .collect();
        let outcomes: Vec<_> = handles.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let unwrap = |outcome: thread::Result<R>| {
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        outcomes.into_iter().map(unwrap).collect()
    })
}

/// Counts threads during whose work others continue.
#[derive(Debug)]
pub(crate) struct Running(AtomicUsize);

impl Running {
    pub(crate) fn new(threads: usize) -> Self {
        Self(AtomicUsize::new(threads))
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Counts a thread as running until the guard is dropped, also by a panic.
    pub(crate) fn one(&self) -> impl Drop {
        struct Run<'r>(&'r AtomicUsize);
        impl Drop for Run<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        Run(&self.0)
    }
}

/// Makes the map grow and shrink, by keys from `from` on that no other thread uses.
pub(crate) fn upset<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    random: &mut Random,
    from: u64,
) {
    let many = 100 + random.below(900);
    if random.once_in(4) {
        map.reserve(many as usize).expect("memory for a larger table");
    }
    let keys: Vec<K> = (from..from + many).map(K::sample).collect();
    if random.once_in(2) {
        let value = |key: &K| V::sample(key.number());
        keys.iter().for_each(|key| assert_eq!(map.insert(key.clone(), value(key)), None));
        keys.iter().for_each(|key| assert_eq!(map.remove(key), Some(value(key))));
    } else {
        let entries: Vec<_> = keys.iter().map(|key| (key.clone(), V::sample(0))).collect();
        let mut out = vec![None; keys.len()];
        assert_eq!(map.insert_many(&entries, &mut out), Ok(keys.len()));
        assert_eq!(map.remove_many(&keys, &mut out), Ok(keys.len()));
    }
    if random.once_in(2) {
        map.shrink_to_fit().expect("memory for a smaller table");
    }
}
