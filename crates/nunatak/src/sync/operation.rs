//! Which operations are running, in all maps of the process.
//!
//! An operation announces itself before it reads a map's root, and withdraws the announcement when
//! it is done (DLHT, section 3.2.5: two stores a request). The announcement is a word in the
//! thread's local storage that a global list points to: a few instructions that touch no memory of
//! another thread. Each instruction counts: an unbatched lookup runs as fast as the processor can
//! overlap it with the next ones, and every instruction takes room in that window.
//!
//! Operations are short, and never run the caller's closures. So announcing them together for all
//! maps holds nothing up. A guard on entries, which a caller may hold for long, is announced to its
//! map only (see `registry`).
//!
//! Invariants
//! 1. A thread's word is zero, or the epoch in which its outermost operation began, or one of two
//!    marks of a thread that has to go the slow way.
//! 2. An operation that begins in an epoch sees everything that was unlinked before the epoch
//!    began: the load of the epoch acquires, the increment releases.
//! 3. A collector unlinks, takes the epoch as a tag and increments it, runs the heavy barrier, and
//!    looks. Words that are zero or of later epochs do not hold it up: by the barrier, an operation
//!    that the look missed reads the root after the unlinking.

use super::Mode;
use core::marker::PhantomData;

#[cfg(not(modelled))]
pub(super) use real::{announce, announce_fast, begin_epoch, ended, withdraw, withdraw_fast};

#[cfg(modelled)]
pub(super) use checked::{announce, announce_fast, begin_epoch, ended, withdraw, withdraw_fast};

/// While this pin lives, no memory of a table that its thread can reach is freed.
#[derive(Debug)]
pub(crate) struct OpPin<Y: Mode> {
    before: u64,
    /// Not `Send`: the announcement is this thread's.
    mode: PhantomData<(*mut (), Y)>,
}

impl<Y: Mode> OpPin<Y> {
    /// Announces an operation of this thread. A table of one thread needs none.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { before: if Y::SHARED { announce() } else { 0 }, mode: PhantomData }
    }
}

impl<Y: Mode> Drop for OpPin<Y> {
    #[inline(always)]
    fn drop(&mut self) {
        if Y::SHARED {
            withdraw(self.before);
        }
    }
}

/// An [`OpPin`] of a thread that is in no other operation and needs no fence, on a machine that
/// loads pairs whole (see [`pairs_load_whole`](super::pairs_load_whole)).
///
/// If the address of the thread's word is `KEPT`, a loop over operations computes it once. Else it is computed
/// for each access, which takes an instruction, but no register.
#[derive(Debug)]
pub struct FastPin<const KEPT: bool = false> {
    /// Not `Send`: the announcement is this thread's.
    this_thread: PhantomData<*mut ()>,
}

impl<const KEPT: bool> FastPin<KEPT> {
    /// Announces an operation in four instructions, if these suffice.
    #[inline(always)]
    pub(crate) fn new() -> Option<Self> {
        // Not `then_some`: it would make the pin in any case, and dropping it withdraws.
        announce_fast::<KEPT>().then(|| Self { this_thread: PhantomData })
    }
}

impl<const KEPT: bool> Drop for FastPin<KEPT> {
    #[inline(always)]
    fn drop(&mut self) {
        withdraw_fast::<KEPT>();
    }
}

/// Starts a new epoch and returns the one before: the tag of everything unlinked until now.
pub(crate) fn retire_tag() -> u64 {
    begin_epoch()
}

/// Whether all operations have ended that may have begun in the epoch `tag` or before. This
/// thread's own operation counts only if `own` is set.
pub(crate) fn operations_ended(tag: u64, own: bool) -> bool {
    ended(tag, own)
}

#[cfg(not(modelled))]
mod real {
    use crate::sync::{barrier, kept, pairs_load_whole};
    use core::ptr;
    use core::sync::atomic::{AtomicU64, Ordering};
    use parking_lot::Mutex;

    /// The thread is not in the list yet, or not any more.
    const UNLISTED: u64 = u64::MAX;
    /// The thread is in the list, but no pin is fast on this machine: the barrier is not
    /// asymmetric, so each announcement needs a full fence, or pairs can't be loaded whole. At rest
    /// the word is this instead of zero.
    const FENCED: u64 = u64::MAX - 1;

    static EPOCH: AtomicU64 = AtomicU64::new(1);
    /// Operations of threads whose local storage is being destroyed.
    static UNLISTED_RUNNING: AtomicU64 = AtomicU64::new(0);
    static WORDS: Mutex<Vec<Word>> = Mutex::new(Vec::new());

    /// The address of a listed thread's word.
    struct Word(*const AtomicU64);

    // SAFETY: the word is atomic, and is taken off the list before it is destroyed.
    unsafe impl Send for Word {}

    thread_local! {
        // Constant and without a destructor: reading it is one load.
        static WORD: AtomicU64 = const { AtomicU64::new(UNLISTED) };
        static LISTED: Listed = const { Listed };
    }

    struct Listed;

    impl Drop for Listed {
        fn drop(&mut self) {
            WORD.with(|word| {
                WORDS.lock().retain(|listed| !ptr::eq(listed.0, word));
                word.store(UNLISTED, Ordering::Relaxed);
            });
        }
    }

    #[inline(always)]
    fn with_word<const KEPT: bool, R>(act: impl FnOnce(&AtomicU64) -> R) -> R {
        WORD.with(|word| act(if KEPT { kept(word) } else { word }))
    }

    #[inline(always)]
    pub(in crate::sync) fn announce() -> u64 {
        WORD.with(|word| {
            let before = word.load(Ordering::Relaxed);
            if before != 0 {
                return announce_slowly(word, before);
            }
            // Acquire: invariant 2.
            word.store(EPOCH.load(Ordering::Acquire), Ordering::Relaxed);
            barrier::light_asymmetric();
            0
        })
    }

    #[inline(always)]
    pub(in crate::sync) fn announce_fast<const KEPT: bool>() -> bool {
        with_word::<KEPT, _>(|word| {
            let is_at_rest = word.load(Ordering::Relaxed) == 0;
            if is_at_rest {
                // Acquire: invariant 2.
                word.store(EPOCH.load(Ordering::Acquire), Ordering::Relaxed);
                barrier::light_asymmetric();
            }
            is_at_rest
        })
    }

    #[inline(always)]
    pub(in crate::sync) fn withdraw_fast<const KEPT: bool>() {
        // Release: pairs with a collector's look.
        with_word::<KEPT, _>(|word| word.store(0, Ordering::Release));
    }

    #[cold]
    #[inline(never)]
    fn announce_slowly(word: &AtomicU64, before: u64) -> u64 {
        match before {
            UNLISTED => {
                if LISTED.try_with(|_| ()).is_err() {
                    // Sequentially consistent: without the list, this orders the store before the
                    // load of the root.
                    UNLISTED_RUNNING.fetch_add(1, Ordering::SeqCst);
                    return UNLISTED;
                }
                WORDS.lock().push(Word(word));
                let is_fast = barrier::is_asymmetric() && pairs_load_whole();
                let rest = if is_fast { 0 } else { FENCED };
                word.store(rest, Ordering::Relaxed);
                announce()
            }
            FENCED => {
                word.store(EPOCH.load(Ordering::Acquire), Ordering::Relaxed);
                barrier::light();
                FENCED
            }
            // Inside of another operation, which began earlier.
            epoch => epoch,
        }
    }

    #[inline(always)]
    pub(in crate::sync) fn withdraw(before: u64) {
        if before == UNLISTED {
            UNLISTED_RUNNING.fetch_sub(1, Ordering::SeqCst);
        } else {
            // Release: pairs with a collector's look.
            WORD.with(|word| word.store(before, Ordering::Release));
        }
    }

    pub(in crate::sync) fn begin_epoch() -> u64 {
        // Release: invariant 2. Acquire: no later unlinking comes before it.
        EPOCH.fetch_add(1, Ordering::AcqRel)
    }

    pub(in crate::sync) fn ended(tag: u64, own: bool) -> bool {
        let words = WORDS.lock();
        barrier::heavy();
        UNLISTED_RUNNING.load(Ordering::SeqCst) == 0
            && WORD.with(|mine| {
                words.iter().all(|listed| {
                    if !own && ptr::eq(listed.0, mine) {
                        return true;
                    }
                    // SAFETY: (R1) a listed word lives until its thread takes it off the list, for
                    // which the thread needs the list's lock. Acquire: what an operation read is
                    // freed after it.
                    let epoch = unsafe { &*listed.0 }.load(Ordering::Acquire);
                    epoch == 0 || epoch == FENCED || epoch > tag
                })
            })
    }
}

/// For model checkers: the words are in a list that each check makes anew.
#[cfg(modelled)]
mod checked {
    use crate::seeded::{Bug, seeded};
    use crate::sync::{AtomicU64, Ordering, barrier, thread_index};

    #[cfg(loom)]
    use loom::lazy_static;
    #[cfg(shuttle)]
    use shuttle::lazy_static;

    const THREADS: usize = 8;

    lazy_static! {
        static ref EPOCH: AtomicU64 = AtomicU64::new(1);
        static ref WORDS: [AtomicU64; THREADS] = core::array::from_fn(|_| AtomicU64::new(0));
    }

    /// A thread of a model keeps its number until the model ends the thread.
    fn current() -> usize {
        thread_index::with(|number| number)
    }

    pub(in crate::sync) fn announce() -> u64 {
        let word = &WORDS[current()];
        let before = word.load(Ordering::Relaxed);
        if before == 0 {
            word.store(EPOCH.load(Ordering::Acquire), Ordering::Relaxed);
            if !seeded(Bug::AnnouncedWithoutBarrier) {
                barrier::light();
            }
        }
        before
    }

    pub(in crate::sync) fn announce_fast<const KEPT: bool>() -> bool {
        let is_at_rest = WORDS[current()].load(Ordering::Relaxed) == 0;
        if is_at_rest {
            announce();
        }
        is_at_rest
    }

    pub(in crate::sync) fn withdraw_fast<const KEPT: bool>() {
        withdraw(0);
    }

    pub(in crate::sync) fn withdraw(before: u64) {
        WORDS[current()].store(before, Ordering::Release);
    }

    pub(in crate::sync) fn begin_epoch() -> u64 {
        EPOCH.fetch_add(1, Ordering::AcqRel)
    }

    pub(in crate::sync) fn ended(tag: u64, own: bool) -> bool {
        if !seeded(Bug::LookWithoutBarrier) {
            barrier::heavy();
        }
        let mine = current();
        WORDS.iter().enumerate().all(|(thread, word)| {
            let epoch = word.load(Ordering::Acquire);
            (!own && thread == mine) || epoch == 0 || epoch > tag
        })
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::Shared;
    use std::sync::mpsc;

    #[test]
    fn a_fast_pin_holds_its_epoch() {
        drop(OpPin::<Shared>::new());
        let pin = FastPin::<false>::new();
        let tag = retire_tag();
        assert!(pin.is_none() || !operations_ended(tag, true));
        drop(pin);
        assert!(std::iter::repeat_with(|| operations_ended(tag, true)).any(|ended| ended));
    }

    #[test]
    fn an_operation_of_another_thread_holds_its_epoch() {
        let (started, is_started) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let outer = OpPin::<Shared>::new();
            drop(OpPin::<Shared>::new());
            assert!(FastPin::<true>::new().is_none(), "an operation is running");
            started.send(()).unwrap();
            stopped.recv().unwrap();
            drop(outer);
        });
        is_started.recv().unwrap();
        let tag = retire_tag();
        assert!(!operations_ended(tag, true), "the inner one did not end the outer one");
        assert!(operations_ended(0, true) || cfg!(not(test)), "epoch 0 was never");
        stop.send(()).unwrap();
        other.join().unwrap();
        while !operations_ended(tag, true) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn ones_own_operation_is_in_ones_own_way_only_if_asked_for() {
        let pin = OpPin::<Shared>::new();
        let tag = retire_tag();
        assert!(!operations_ended(tag, true));
        drop(pin);
    }

    #[test]
    fn operations_in_destructors_of_thread_locals_are_counted() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                let pin = OpPin::<Shared>::new();
                let tag = retire_tag();
                assert!(!operations_ended(tag, true));
                drop(pin);
            }
        }
        thread_local!(static LATE: Late = const { Late });
        std::thread::spawn(|| {
            LATE.with(|_| ());
            drop(OpPin::<Shared>::new());
        })
        .join()
        .unwrap();
    }
}
