//! [`BoxedMap`] of [`Sealable`] values: changes in place that no removal loses.
//!
//! The thread that seals a value owns it, and an entry whose value is sealed counts as absent. The
//! entry may be in its slot for a moment more. Any thread that meets it there unlinks it, so no
//! thread waits for the one that sealed it. The thread that unlinks the entry retires it; the guard
//! of the thread that sealed it keeps the entry until that thread has read it.

use crate::entry::{Entry, Unpublished};
use crate::map::boxed::sealable::Sealable;
use crate::map::boxed::{BoxedMap, Pointer};
use crate::sync::GuardPin;
use crate::table::{Change, Design, PairTable};
use core::hash::{BuildHasher, Hash};
use equivalent::Equivalent;

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, Sealable<V>, S, D> {
    /// Unlinks the very entry `sealed`, if it is still in its slot.
    fn unlink<Q>(&self, guard: &GuardPin<'_>, key: &Q, sealed: Pointer<K, Sealable<V>>)
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if self.replace_entry(guard, key, sealed, Change::Remove).is_ok() {
            self.retire(sealed);
        }
    }

    /// Runs `f` on the key's value, in place, and returns the result of `f`; `None` if the key is
    /// absent.
    ///
    /// As [`get_with`](Self::get_with), but [`remove_sealed_if`](Self::remove_sealed_if) and
    /// [`retain_unsealed`](Self::retain_unsealed) lose no change that `f` makes: they remove an
    /// entry before `f` begins, so that it does not run, or after it has ended. Other threads may
    /// change the value at the same time. `f` may use the map. Costs a lookup and two atomic
    /// read-modify-writes.
    ///
    /// # Panics
    /// If 524,288 uses of the value are running. A panic of `f` ends its use.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, Sealable};
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let counts: DlhtBoxedMap<String, Sealable<AtomicU64>> = DlhtBoxedMap::new();
    /// assert_eq!(counts.modify("ice", |count| count.fetch_add(1, Relaxed)), None);
    /// counts.try_put("ice".into(), AtomicU64::new(1).into()).unwrap();
    /// assert_eq!(counts.modify("ice", |count| count.fetch_add(1, Relaxed)), Some(1));
    /// ```
    pub fn modify<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let guard = self.guard();
        let mut f = f;
        loop {
            let found = self.find(&guard, key)?;
            // SAFETY: found under the guard (R3).
            match unsafe { found.entry() }.value.with(f) {
                Ok(result) => return Some(result),
                Err(not_run) => f = not_run,
            }
            self.unlink(&guard, key, found);
        }
    }

    /// Runs `f` on the key's value, in place, or on the result of `make`, which is stored first, if
    /// the key is absent.
    ///
    /// As [`modify`](Self::modify). `make` runs at most once. Its value is dropped if another
    /// thread stored one meanwhile; otherwise it is not removed before `f` has ended. A miss costs
    /// an insert in addition.
    ///
    /// # Panics
    /// As [`modify`](Self::modify). If `f` panics the key stays.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, Sealable};
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let counts: DlhtBoxedMap<String, Sealable<AtomicU64>> = DlhtBoxedMap::new();
    /// let count = |word: &str| {
    ///     counts.modify_or_insert_with(word.into(), Default::default, |n| n.fetch_add(1, Relaxed))
    /// };
    /// assert_eq!((count("ice"), count("ice")), (0, 1));
    /// ```
    pub fn modify_or_insert_with<R>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        f: impl FnOnce(&V) -> R,
    ) -> R {
        let guard = self.guard();
        let mut f = f;
        while let Some(found) = self.find(&guard, &key) {
            // SAFETY: found under the guard (R3).
            match unsafe { found.entry() }.value.with(f) {
                Ok(result) => return result,
                Err(not_run) => f = not_run,
            }
            self.unlink(&guard, &key, found);
        }
        let entry = Unpublished::new(key, Sealable::new(make()));
        let ptr = entry.ptr();
        // SAFETY: the entry is ours; later it is in the table, or taken out of it under this guard.
        let Entry { key, value } = unsafe { ptr.entry() };
        // The use begins before other threads see the value, so that none seals it before `f` has
        // run.
        let our_use = value.begin();
        loop {
            match self.apply(&guard, key, Some(ptr), Change::keep) {
                None => {
                    entry.published();
                    let result = f(value.peek());
                    drop(our_use);
                    return result;
                }
                Some(found) => {
                    // SAFETY: found under the guard (R3).
                    match unsafe { found.entry() }.value.with(f) {
                        Ok(result) => return result,
                        Err(not_run) => f = not_run,
                    }
                    self.unlink(&guard, key, found);
                }
            }
        }
    }

    /// Seals the key's value and removes the key, if no use of the value is running and `condition`
    /// holds. Then runs `take` on the key and the value, once, and returns its result.
    ///
    /// No use by [`modify`](Self::modify) or [`modify_or_insert_with`](Self::modify_or_insert_with)
    /// changes the value after `condition` has looked at it, so `take` sees all changes that were
    /// ever made. Later calls of these methods find the key absent. `condition` runs again if the
    /// value was used meanwhile.
    ///
    /// Never waits: returns `None` if the key is absent, `condition` does not hold, or a use is
    /// running (also one of this thread's). Costs a lookup, one atomic read-modify-write, and a
    /// removal. The entry is dropped [later](Self#when-entries-are-dropped).
    ///
    /// # Panics
    /// If `take` panics the key is gone.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, Sealable};
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let counts: DlhtBoxedMap<String, Sealable<AtomicU64>> = DlhtBoxedMap::new();
    /// counts.modify_or_insert_with("ice".into(), Default::default, |n| n.fetch_add(3, Relaxed));
    /// let drain = |least| {
    ///     let is_enough = |_: &String, n: &AtomicU64| n.load(Relaxed) >= least;
    ///     counts.remove_sealed_if("ice", is_enough, |_, n| n.load(Relaxed))
    /// };
    /// assert_eq!((drain(4), drain(3), drain(0)), (None, Some(3), None));
    /// ```
    pub fn remove_sealed_if<Q, R>(
        &self,
        key: &Q,
        mut condition: impl FnMut(&K, &V) -> bool,
        take: impl FnOnce(&K, &V) -> R,
    ) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let guard = self.guard();
        loop {
            let found = self.find(&guard, key)?;
            // SAFETY: found under the guard (R3).
            let Entry { key: stored, value } = unsafe { found.entry() };
            if value.seal_if(|value| condition(stored, value)) {
                self.unlink(&guard, key, found);
                return Some(take(stored, value.peek()));
            }
            if !value.is_sealed() {
                return None;
            }
            // Another thread has sealed the value: there may be a new entry.
            self.unlink(&guard, key, found);
        }
    }

    /// Seals and removes the entries that `keep` rejects, and runs `take` once on the key and the
    /// value of each.
    ///
    /// As with [`remove_sealed_if`](Self::remove_sealed_if), no change comes between `keep` and
    /// `take`. An entry that is in use when the walk reaches it is kept, and `keep` does not run on
    /// it. `keep` runs again on a value that was used meanwhile. Otherwise as
    /// [`retain`](Self::retain).
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, Sealable};
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// let counts: DlhtBoxedMap<u64, Sealable<AtomicU64>> = DlhtBoxedMap::new();
    /// (0..10).for_each(|key| drop(counts.put(key, AtomicU64::new(key).into())));
    /// let mut removed = 0;
    /// let count = |n: &AtomicU64| n.load(Relaxed);
    /// counts.retain_unsealed(|_, n| count(n) < 7, |_, n| removed += count(n));
    /// assert_eq!((counts.len(), removed), (7, 7 + 8 + 9));
    /// ```
    pub fn retain_unsealed(
        &self,
        mut keep: impl FnMut(&K, &V) -> bool,
        mut take: impl FnMut(&K, &V),
    ) {
        // Retired after the guard ends, which would hold them back, as in `retain`.
        let mut removed = Vec::new();
        {
            let guard = self.guard();
            for (_, word) in self.table.iter() {
                // SAFETY: the table holds addresses of entries only.
                let found = unsafe { Pointer::<K, Sealable<V>>::from_word(word) };
                // SAFETY: found under the guard (R3).
                let Entry { key, value } = unsafe { found.entry() };
                let sealed = value.seal_if(|value| !keep(key, value));
                if sealed || value.is_sealed() {
                    let unlinked = self.replace_entry(&guard, key, found, Change::Remove);
                    removed.extend(unlinked.is_ok().then(|| self.removed(found)));
                }
                if sealed {
                    take(key, value.peek());
                }
            }
        }
        drop(removed);
        self.limbo.collect(self.table.registry());
    }
}
