//! A map behind the functions that C++ gives out.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

/// What a loop does with a key, and what it checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Step {
    /// Looks the key up. It must be there with a value of the key.
    Get,
    /// Looks the key up. It must not be there.
    Miss,
    /// Inserts the key with [its value](value_of). It must not be there.
    Insert,
    /// Replaces the value by the key's value with the version of the loop. The key must be there.
    Update,
    /// Increments the version in the value, atomically. The key must be there.
    Modify,
    /// Removes the key. It must be there with a value of the key.
    Remove,
    /// Inserts the key, then removes it, with both checks.
    InsertAndRemove,
}

/// Returns the value that loops store with a key. Its lowest eight bits are a version, which begins at zero.
///
/// ```
/// assert_eq!(nunatak_cpp_peers::value_of(7) & 0xFF, 0);
/// ```
#[inline]
#[must_use]
pub const fn value_of(key: u64) -> u64 {
    (key ^ 0x9E37_79B9_7F4A_7C15).rotate_left(29) & !0xFF
}

/// The functions of a map: the struct `Table` of `cpp/peer.hpp`.
#[repr(C)]
pub(crate) struct Table {
    create: unsafe extern "C" fn(usize) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    size: unsafe extern "C" fn(*const c_void) -> usize,
    get: unsafe extern "C" fn(*const c_void, u64, *mut u64) -> bool,
    insert: unsafe extern "C" fn(*mut c_void, u64, u64, *mut u64) -> bool,
    modify: unsafe extern "C" fn(*mut c_void, u64, Change, *mut c_void) -> bool,
    remove: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> bool,
    run: unsafe extern "C" fn(*mut c_void, Step, *const u64, usize, u64) -> usize,
    run_each: unsafe extern "C" fn(*mut c_void, *const Step, *const u64, usize, u64) -> usize,
    get_many: Option<unsafe extern "C" fn(*const c_void, Step, *const u64, usize) -> usize>,
}

/// Returns a new value for an old one, by the closure behind the pointer.
type Change = unsafe extern "C" fn(*mut c_void, u64) -> u64;

/// A map of `u64` to `u64` of a library of C++, which threads share by reference.
///
/// Every key that a loop takes is checked: its presence, and that the value is one of the key. A loop returns
/// how many of its operations went wrong. What threads do at the same time with the same key is linearizable by
/// the promise of each library, and what is checked must hold all the same: it is for the caller to see that
/// other threads do not remove a key that is looked up.
///
/// A map whose memory runs out ends the process.
///
/// ```
/// use nunatak_cpp_peers::{Library, Step};
///
/// if let Ok(map) = Library::Libcuckoo.map(100) {
///     let keys: Vec<u64> = (0..100).collect();
///     assert_eq!(map.run(Step::Insert, &keys, 0), 0);
///     assert_eq!(map.run(Step::Get, &keys, 0), 0);
///     // They are there.
///     assert_eq!(map.run(Step::Miss, &keys, 0), 100);
/// }
/// ```
pub struct Map {
    table: &'static Table,
    map: NonNull<c_void>,
}

// SAFETY: a map belongs to no thread.
unsafe impl Send for Map {}

// SAFETY: all functions of the table may be called by several threads at the same time, but for `destroy`, which
// needs the map itself.
unsafe impl Sync for Map {}

impl Map {
    /// Makes an empty map; `None` if there is no memory.
    pub(crate) fn new(table: &'static Table, capacity: usize) -> Option<Self> {
        // SAFETY: `create` takes any capacity.
        let map = NonNull::new(unsafe { (table.create)(capacity) })?;
        Some(Self { table, map })
    }

    /// Returns the number of items. It is exact if nothing changes the map meanwhile.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: `map` is a map of this table.
        unsafe { (self.table.size)(self.map.as_ptr()) }
    }

    /// Returns whether the map has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key's value.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        let mut value = 0;
        // SAFETY: `map` is a map of this table, and `value` is a word to write to.
        unsafe { (self.table.get)(self.map.as_ptr(), key, &raw mut value) }.then_some(value)
    }

    /// Stores the value, and returns the one that it replaced.
    pub fn insert(&self, key: u64, value: u64) -> Option<u64> {
        let mut replaced = 0;
        // SAFETY: `map` is a map of this table, and `replaced` is a word to write to.
        let is_new =
            unsafe { (self.table.insert)(self.map.as_ptr(), key, value, &raw mut replaced) };
        (!is_new).then_some(replaced)
    }

    /// Replaces the value by the result of `change`, which the library calls with a lock held: it must not use
    /// the map. Returns whether the key is there.
    ///
    /// # Panics
    ///
    /// A panic of `change` ends the process.
    pub fn modify<F: Fn(u64) -> u64>(&self, key: u64, change: F) -> bool {
        unsafe extern "C" fn call<F: Fn(u64) -> u64>(change: *mut c_void, value: u64) -> u64 {
            // SAFETY: `modify` below passes a pointer to its closure of this type, which lives until the call ends.
            let change = unsafe { &*change.cast_const().cast::<F>() };
            change(value)
        }
        let context = (&raw const change).cast_mut().cast();
        // SAFETY: `map` is a map of this table, and `call` takes this context.
        unsafe { (self.table.modify)(self.map.as_ptr(), key, call::<F>, context) }
    }

    /// Removes the key and returns its value.
    pub fn remove(&self, key: u64) -> Option<u64> {
        let mut removed = 0;
        // SAFETY: `map` is a map of this table, and `removed` is a word to write to.
        unsafe { (self.table.remove)(self.map.as_ptr(), key, &raw mut removed) }.then_some(removed)
    }

    /// Does one thing with each key, in order, in one loop of C++. Returns how many operations went wrong.
    #[must_use]
    pub fn run(&self, step: Step, keys: &[u64], version: u64) -> usize {
        // SAFETY: `map` is a map of this table, and the pointer and the length are those of a slice.
        unsafe { (self.table.run)(self.map.as_ptr(), step, keys.as_ptr(), keys.len(), version) }
    }

    /// Does with each key what the step at its place says, in order, in one loop of C++. Returns how many
    /// operations went wrong.
    ///
    /// # Panics
    ///
    /// If there are not as many steps as keys.
    #[must_use]
    pub fn run_each(&self, steps: &[Step], keys: &[u64], version: u64) -> usize {
        assert_eq!(steps.len(), keys.len(), "each key has a step");
        let (steps, keys, count) = (steps.as_ptr(), keys.as_ptr(), keys.len());
        // SAFETY: `map` is a map of this table, and both pointers are those of slices of this length.
        unsafe { (self.table.run_each)(self.map.as_ptr(), steps, keys, count, version) }
    }

    /// Returns whether the map looks many keys up at once.
    #[must_use]
    pub fn has_batches(&self) -> bool {
        self.table.get_many.is_some()
    }

    /// Looks all keys up at once, in no order, and returns zero exactly if nothing went wrong. `is_there` says
    /// whether all keys must be there, each with a value of the key, or none.
    ///
    /// # Panics
    ///
    /// If the map [has no batches](Self::has_batches).
    #[must_use]
    pub fn get_many(&self, keys: &[u64], is_there: bool) -> usize {
        let get_many = self.table.get_many.expect("the map has batches");
        let step = if is_there { Step::Get } else { Step::Miss };
        // SAFETY: `map` is a map of this table, and the pointer and the length are those of a slice.
        unsafe { get_many(self.map.as_ptr(), step, keys.as_ptr(), keys.len()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `map` is a map of this table, and nobody else has it.
        unsafe { (self.table.destroy)(self.map.as_ptr()) }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("len", &self.len()).finish_non_exhaustive()
    }
}
