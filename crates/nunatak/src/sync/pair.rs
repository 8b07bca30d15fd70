//! Two 64-bit words that are read and written one by one, and compared and swapped together.
//!
//! Invariants
//! 1. A pair is aligned to 16 bytes, the first word at the lower address.
//! 2. Only [`AtomicPair::compare_exchange`] touches both words at once, by one locked instruction
//!    (or a lock-free equivalent). Compilers know nothing of atomics of mixed sizes; processors do:
//!    they order all accesses to one naturally aligned 16-byte word.

#[cfg(not(any(loom, shuttle, miri)))]
mod real {
    use super::join;
    use core::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Default)]
    #[repr(C, align(16))]
    pub struct AtomicPair {
        first: AtomicU64,
        second: AtomicU64,
    }

    impl AtomicPair {
        #[inline(always)]
        pub(crate) fn load_first(&self, order: Ordering) -> u64 {
            self.first.load(order)
        }

        #[inline(always)]
        pub(crate) fn load_second(&self, order: Ordering) -> u64 {
            let word = self.second.load(order);
            // ThreadSanitizer finds what a 16-byte compare-and-swap has released by its address,
            // which is that of the first word.
            #[cfg(nunatak_tsan)]
            self.first.load(Ordering::Acquire);
            word
        }

        #[inline(always)]
        pub(crate) fn store_first(&self, word: u64, order: Ordering) {
            self.first.store(word, order);
        }

        #[inline(always)]
        pub(crate) fn store_second(&self, word: u64, order: Ordering) {
            self.second.store(word, order);
        }

        /// Loads both words as they were at one instant. Acquires.
        ///
        /// This is one load if `whole` says that the processor can, as
        /// [`pairs_load_whole`](super::pairs_load_whole) tells. Otherwise it may be a locked
        /// instruction.
        #[inline(always)]
        pub(crate) fn load_whole(&self, whole: bool) -> (u64, u64) {
            #[cfg(all(target_arch = "x86_64", not(nunatak_tsan)))]
            if whole {
                let pair: core::arch::x86_64::__m128i;
                // SAFETY: reads 16 aligned bytes that live as long as `self`, changes no flags, and
                // needs AVX, which the caller has checked. A load of 16 aligned bytes is one access
                // on every processor with AVX.
                unsafe {
                    core::arch::asm!(
                        "vmovdqa {pair}, xmmword ptr [{address}]",
                        address = in(reg) core::ptr::from_ref(self),
                        pair = lateout(xmm_reg) pair,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                // Acquire. No instruction: the processor keeps loads in order. For the compiler the
                // block above only reads, as a relaxed load does, so it could move the caller's
                // next loads before it.
                core::sync::atomic::fence(Ordering::Acquire);
                // Outside of the assembly, so that the second word is extracted only where it is
                // used.
                // SAFETY: two words are as large and as valid as a vector of them.
                let [first, second]: [u64; 2] = unsafe { core::mem::transmute(pair) };
                return (first, second);
            }
            let _ = whole;
            let address: *mut u128 = core::ptr::from_ref(self).cast_mut().cast();
            #[cfg(all(target_arch = "x86_64", nunatak_tsan))]
            // SAFETY: as in `compare_exchange`; a pair is replaced by itself or not at all.
            let pair = unsafe { load_by_cas(address) };
            // ThreadSanitizer takes a pair and its second word for two variables, and only the
            // second word was released.
            #[cfg(nunatak_tsan)]
            let _ = self.load_second(Ordering::Acquire);
            #[cfg(not(all(target_arch = "x86_64", nunatak_tsan)))]
            // SAFETY: as in `compare_exchange`; all accesses are atomic.
            let pair =
                unsafe { portable_atomic::AtomicU128::from_ptr(address) }.load(Ordering::Acquire);
            if cfg!(target_endian = "little") {
                (pair as u64, (pair >> 64) as u64)
            } else {
                ((pair >> 64) as u64, pair as u64)
            }
        }

        /// Replaces the first word if it is `current`. Releases earlier stores.
        #[inline(always)]
        pub(crate) fn compare_exchange_first(&self, current: u64, new: u64) -> bool {
            self.first.compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        /// Replaces both words if they are `current`; acquires and releases.
        #[inline(always)]
        pub(crate) fn compare_exchange(&self, current: (u64, u64), new: (u64, u64)) -> bool {
            let (current, new) = (join(current), join(new));
            #[cfg(target_arch = "x86_64")]
            {
                // SAFETY: the pointer is to 16 aligned bytes that live as long as `self` (invariant
                // 1). No map is built on a processor without the instruction.
                unsafe { cmpxchg16b(core::ptr::from_ref(self).cast_mut().cast(), current, new) }
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                let address = core::ptr::from_ref(self).cast_mut().cast();
                // SAFETY: as above; all accesses are atomic.
                let pair = unsafe { portable_atomic::AtomicU128::from_ptr(address) };
                pair.compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            }
        }
    }

    /// The instruction as inline assembly. The intrinsic would be a call, since a default build
    /// does not assume the instruction.
    ///
    /// # Safety
    /// `address` is valid for 16 bytes and aligned to them; the processor has the instruction.
    #[cfg(all(target_arch = "x86_64", not(nunatak_tsan)))]
    #[inline(always)]
    unsafe fn cmpxchg16b(address: *mut u128, current: u128, new: u128) -> bool {
        let swapped: u8;
        // LLVM keeps rbx for itself, so rbx is exchanged with a register of its choice and back.
        // The address is in a named register, since LLVM might choose rbx for it.
        // SAFETY: the caller's promise; memory is an implicit clobber, which makes this a compiler
        // barrier as well.
        unsafe {
            core::arch::asm!(
                "xchg rbx, {low}",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "mov rbx, {low}",
                "sete {swapped}",
                low = inout(reg) new as u64 => _,
                in("rdi") address,
                inout("rax") current as u64 => _,
                inout("rdx") (current >> 64) as u64 => _,
                in("rcx") (new >> 64) as u64,
                swapped = lateout(reg_byte) swapped,
                options(nostack),
            );
        }
        swapped != 0
    }

    /// The intrinsic, which sanitizers understand.
    ///
    /// # Safety
    /// As above.
    #[cfg(all(target_arch = "x86_64", nunatak_tsan))]
    #[target_feature(enable = "cmpxchg16b")]
    unsafe fn cmpxchg16b(address: *mut u128, current: u128, new: u128) -> bool {
        // SAFETY: the caller's promise.
        let present = unsafe {
            core::arch::x86_64::cmpxchg16b(
                address,
                current,
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
        };
        present == current
    }

    /// Reads memory by a comparison with zero.
    ///
    /// # Safety
    /// As above.
    #[cfg(all(target_arch = "x86_64", nunatak_tsan))]
    #[target_feature(enable = "cmpxchg16b")]
    unsafe fn load_by_cas(address: *mut u128) -> u128 {
        // SAFETY: the caller's promise.
        unsafe {
            core::arch::x86_64::cmpxchg16b(address, 0, 0, Ordering::AcqRel, Ordering::Acquire)
        }
    }

    /// Whether this processor can do [`AtomicPair::compare_exchange`].
    pub(crate) fn double_word_cas_is_lock_free() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            std::is_x86_feature_detected!("cmpxchg16b")
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            portable_atomic::AtomicU128::is_lock_free()
        }
    }
}

/// The pair for Miri, which has no inline assembly, and takes accesses of two sizes to one place
/// for a race. All accesses are of 16 bytes, by the compiler's own operations: no atomic type of
/// that size is stable.
///
/// A store of one word exchanges the pair. It continues the release sequence of the other word's
/// store. So for two words that are read one by one Miri sees more synchronisation than there is;
/// never less.
#[cfg(miri)]
mod interpreted {
    use super::join;
    use core::cell::UnsafeCell;
    use core::intrinsics::{AtomicOrdering as Order, atomic_cxchg, atomic_load};
    use core::sync::atomic::Ordering;

    #[derive(Debug, Default)]
    #[repr(C, align(16))]
    pub struct AtomicPair(UnsafeCell<u128>);

    // SAFETY: all accesses are atomic.
    unsafe impl Sync for AtomicPair {}

    impl AtomicPair {
        fn load(&self, order: Ordering) -> (u64, u64) {
            let address = self.0.get();
            // SAFETY: 16 aligned bytes that live as long as `self` (invariant 1), here and below.
            let pair = unsafe {
                match order {
                    Ordering::Relaxed => atomic_load::<u128, { Order::Relaxed }>(address),
                    Ordering::Acquire => atomic_load::<u128, { Order::Acquire }>(address),
                    _ => atomic_load::<u128, { Order::SeqCst }>(address),
                }
            };
            if cfg!(target_endian = "little") {
                (pair as u64, (pair >> 64) as u64)
            } else {
                ((pair >> 64) as u64, pair as u64)
            }
        }

        fn exchange(&self, current: (u64, u64), new: (u64, u64), order: Ordering) -> bool {
            let (address, current, new) = (self.0.get(), join(current), join(new));
            // SAFETY: as above.
            let (_, is_exchanged) = unsafe {
                match order {
                    Ordering::Relaxed => {
                        atomic_cxchg::<u128, { Order::Relaxed }, { Order::Relaxed }>(
                            address, current, new,
                        )
                    }
                    Ordering::Release => {
                        atomic_cxchg::<u128, { Order::Release }, { Order::Relaxed }>(
                            address, current, new,
                        )
                    }
                    Ordering::AcqRel => {
                        atomic_cxchg::<u128, { Order::AcqRel }, { Order::Relaxed }>(
                            address, current, new,
                        )
                    }
                    _ => atomic_cxchg::<u128, { Order::SeqCst }, { Order::Relaxed }>(
                        address, current, new,
                    ),
                }
            };
            is_exchanged
        }

        fn replace(&self, order: Ordering, change: impl Fn((u64, u64)) -> (u64, u64)) {
            loop {
                let pair = self.load(Ordering::Relaxed);
                if self.exchange(pair, change(pair), order) {
                    return;
                }
            }
        }

        pub(crate) fn load_whole(&self, _whole: bool) -> (u64, u64) {
            self.load(Ordering::Acquire)
        }

        pub(crate) fn load_first(&self, order: Ordering) -> u64 {
            self.load(order).0
        }

        pub(crate) fn load_second(&self, order: Ordering) -> u64 {
            self.load(order).1
        }

        pub(crate) fn store_first(&self, word: u64, order: Ordering) {
            self.replace(order, |(_, second)| (word, second));
        }

        pub(crate) fn store_second(&self, word: u64, order: Ordering) {
            self.replace(order, |(first, _)| (first, word));
        }

        pub(crate) fn compare_exchange_first(&self, current: u64, new: u64) -> bool {
            loop {
                let pair = self.load(Ordering::Relaxed);
                // A failure must be of the newest pair, too, like an exchange's: exchanging the
                // pair with itself finds it.
                let (next, order) = if pair.0 == current {
                    ((new, pair.1), Ordering::AcqRel)
                } else {
                    (pair, Ordering::Relaxed)
                };
                if self.exchange(pair, next, order) {
                    return pair.0 == current;
                }
            }
        }

        pub(crate) fn compare_exchange(&self, current: (u64, u64), new: (u64, u64)) -> bool {
            self.exchange(current, new, Ordering::AcqRel)
        }
    }

    pub(crate) fn double_word_cas_is_lock_free() -> bool {
        true
    }
}

/// Returns the two words as the 128-bit number that memory holds.
#[cfg(not(modelled))]
#[inline(always)]
fn join((first, second): (u64, u64)) -> u128 {
    if cfg!(target_endian = "little") {
        u128::from(second) << 64 | u128::from(first)
    } else {
        u128::from(first) << 64 | u128::from(second)
    }
}

/// Whether one load reads both words of a pair at once.
pub(crate) fn pairs_load_whole() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::is_x86_feature_detected!("avx")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        true
    }
}

/// The pair for a model checker, which has no 16-byte atomics: an atomic index into a list of all
/// pairs that ever were. Each access is one step with the requested order.
///
/// When Loom looks for steps to exchange, it remembers only the last access to a location. So a
/// thread that loads before it stores hides the other thread's load. A relaxed increment of another
/// counter before each access orders nothing, and makes all of them exchangeable.
#[cfg(modelled)]
mod checked {
    use crate::sync::{AtomicUsize, Ordering};
    use std::sync::Mutex;

    #[derive(Debug)]
    pub(crate) struct AtomicPair {
        index: AtomicUsize,
        accesses: AtomicUsize,
        pairs: Mutex<Vec<(u64, u64)>>,
    }

    impl Default for AtomicPair {
        fn default() -> Self {
            Self {
                index: AtomicUsize::new(0),
                accesses: AtomicUsize::new(0),
                pairs: Mutex::new(vec![(0, 0)]),
            }
        }
    }

    impl AtomicPair {
        fn list(&self) -> std::sync::MutexGuard<'_, Vec<(u64, u64)>> {
            self.pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        fn load(&self, order: Ordering) -> (usize, (u64, u64)) {
            self.accesses.fetch_add(1, Ordering::Relaxed);
            let index = self.index.load(order);
            (index, self.list()[index])
        }

        fn replace(
            &self,
            success: Ordering,
            change: impl Fn((u64, u64)) -> Option<(u64, u64)>,
        ) -> bool {
            // A compare-and-swap reads the newest value, so the loop ends as soon as it has seen
            // that value.
            let (mut index, mut pair) = self.load(Ordering::Relaxed);
            loop {
                // A failed comparison must be with the newest pair, too: exchanging the pair with
                // itself finds it.
                let new = change(pair);
                let next = match new {
                    Some(new) => {
                        let mut list = self.list();
                        list.push(new);
                        list.len() - 1
                    }
                    None => index,
                };
                let order = if new.is_some() { success } else { Ordering::Relaxed };
                match self.index.compare_exchange(index, next, order, Ordering::Relaxed) {
                    Ok(_) => return new.is_some(),
                    Err(newest) => {
                        index = newest;
                        pair = self.list()[newest];
                    }
                }
            }
        }

        pub(crate) fn load_whole(&self, _whole: bool) -> (u64, u64) {
            self.load(Ordering::Acquire).1
        }

        pub(crate) fn load_first(&self, order: Ordering) -> u64 {
            self.load(order).1.0
        }

        pub(crate) fn load_second(&self, order: Ordering) -> u64 {
            self.load(order).1.1
        }

        pub(crate) fn store_first(&self, word: u64, order: Ordering) {
            self.replace(order, |pair| Some((word, pair.1)));
        }

        pub(crate) fn store_second(&self, word: u64, order: Ordering) {
            self.replace(order, |pair| Some((pair.0, word)));
        }

        pub(crate) fn compare_exchange_first(&self, current: u64, new: u64) -> bool {
            self.replace(Ordering::AcqRel, |pair| (pair.0 == current).then_some((new, pair.1)))
        }

        pub(crate) fn compare_exchange(&self, current: (u64, u64), new: (u64, u64)) -> bool {
            self.replace(Ordering::AcqRel, |pair| (pair == current).then_some(new))
        }
    }

    pub(crate) fn double_word_cas_is_lock_free() -> bool {
        true
    }
}

#[cfg(modelled)]
pub(crate) use checked::{AtomicPair, double_word_cas_is_lock_free};
#[cfg(miri)]
pub(crate) use interpreted::{AtomicPair, double_word_cas_is_lock_free};
#[cfg(not(any(loom, shuttle, miri)))]
pub(crate) use real::{AtomicPair, double_word_cas_is_lock_free};

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::AtomicPair;
    use core::sync::atomic::Ordering::Relaxed;

    fn words(pair: &AtomicPair) -> (u64, u64) {
        (pair.load_first(Relaxed), pair.load_second(Relaxed))
    }

    #[test]
    fn swaps_both_words_or_none() {
        let pair = AtomicPair::default();
        assert!(pair.compare_exchange((0, 0), (u64::MAX, 7)));
        assert!(!pair.compare_exchange((u64::MAX, 8), (1, 1)));
        assert!(!pair.compare_exchange((1, 7), (1, 1)));
        assert_eq!(words(&pair), (u64::MAX, 7));
        assert!(pair.compare_exchange((u64::MAX, 7), (3, 4)));
        assert_eq!(words(&pair), (3, 4));
        assert!(pair.compare_exchange_first(3, 5) && !pair.compare_exchange_first(3, 6));
        assert_eq!(words(&pair), (5, 4));
    }

    #[test]
    fn no_increment_of_either_word_is_lost() {
        let pair = AtomicPair::default();
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        loop {
                            let (a, b) = words(&pair);
                            if pair.compare_exchange((a, b), (a + 1, b + 3)) {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(words(&pair), (4 * rounds, 12 * rounds));
    }
}
