//! The format of records: which sizes are fixed, how keys are told apart, how values are accessed.

use super::entries::{Naming, Plain};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// A size of a [`Format`] that differs from record to record.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, VARIABLE}};
/// let map: DlhtRecordMap<Format<8, VARIABLE>> = DlhtRecordMap::new();
/// assert!(map.put(b"a key of", b"any value").is_ok());
/// assert!(map.put(b"another length", b"").is_err());
/// ```
pub const VARIABLE: usize = usize::MAX;

/// The format of the records of a [`RecordMap`](crate::RecordMap): the sizes of keys and values in
/// bytes, whether keys have namespaces (`N`: [`Plain`] or [`Named`](super::Named)), and whether
/// values are changed in place (`V`: [`Frozen`] or [`InPlace`]).
///
/// A fixed size is not stored. If keys have a fixed size of at most 8 bytes and no namespaces, the
/// slot holds the whole key, and a lookup costs what it costs in an inline map.
///
/// ```
/// use nunatak::{DlhtRecordMap, Namespace, entry::{Format, Named}};
/// let map: DlhtRecordMap<Format<8, 32, Named>> = DlhtRecordMap::new();
/// let key = 7_u64.to_le_bytes();
/// map.put((Namespace::new(1)?, &key), &[0; 32])?;
/// assert_eq!(map.get((Namespace::new(2)?, &key)), None);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct Format<
    const KEY: usize = VARIABLE,
    const VALUE: usize = VARIABLE,
    N: Naming = Plain,
    V: Access = Frozen,
>(PhantomData<(N, V)>);

mod sealed {
    use super::{Access, Format, Naming};

    pub trait Sealed {}
    impl<const KEY: usize, const VALUE: usize, N: Naming, V: Access> Sealed
        for Format<KEY, VALUE, N, V>
    {
    }
    impl Sealed for super::Frozen {}
    impl Sealed for super::InPlace {}
}

/// Any [`Format`].
///
/// ```
/// use nunatak::entry::{Format, RecordFormat};
/// assert_eq!(<Format<8, 32> as RecordFormat>::KEY, 8);
/// ```
pub trait RecordFormat: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// The size of a key in bytes, or [`VARIABLE`].
    const KEY: usize;
    /// The size of a value in bytes, or [`VARIABLE`].
    const VALUE: usize;
    /// How keys are told apart.
    type Naming: Naming;
    /// How values are accessed.
    type Access: Access;
}

impl<const KEY: usize, const VALUE: usize, N: Naming, V: Access> RecordFormat
    for Format<KEY, VALUE, N, V>
where
    Self: fmt::Debug,
{
    const KEY: usize = KEY;
    const VALUE: usize = VALUE;
    type Naming = N;
    type Access = V;
}

/// How values are accessed: [`Frozen`] or [`InPlace`].
///
/// ```
/// use nunatak::entry::{Access, Frozen};
/// let value: <Frozen as Access>::Value<'_> = b"bytes";
/// # assert_eq!(value.len(), 5);
/// ```
pub trait Access: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// A value, borrowed from where it is stored.
    type Value<'v>: Copy + fmt::Debug;

    /// # Safety
    /// For `'v` so many bytes are at the address, in memory that has room for whole words. They are
    /// written, and from then on accessed only as this trait's values are.
    #[doc(hidden)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> Self::Value<'v>;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn append(value: Self::Value<'_>, buffer: &mut Vec<u8>);
}

/// Values that never change: a slice of bytes. An update stores another value.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, Frozen, Plain}};
/// let map: DlhtRecordMap<Format<8, 4, Plain, Frozen>> = DlhtRecordMap::new();
/// map.put(b"some key", b"1234")?;
/// assert_eq!(map.pin().get(b"some key"), Some(&b"1234"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct Frozen;

impl Access for Frozen {
    type Value<'v> = &'v [u8];

    #[inline(always)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> &'v [u8] {
        // SAFETY: the caller's promise; no thread writes a frozen value.
        unsafe { core::slice::from_raw_parts(address, len) }
    }

    fn append(value: &[u8], buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(value);
    }
}

/// Values that threads change in place by atomic words (DLHT, section 3.2.1: the pointer
/// interface): see [`Words`].
///
/// A thread with a guard may change a value that was replaced or removed meanwhile. Such a change
/// is lost: a caller that counts in values must not remove them while others count.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain}};
/// use std::sync::atomic::Ordering::Relaxed;
/// let counters: DlhtRecordMap<Format<8, 16, Plain, InPlace>> = DlhtRecordMap::new();
/// counters.put(b"requests", &[0; 16])?;
/// counters.pin().get(b"requests").unwrap().word(1).fetch_add(5, Relaxed);
/// assert_eq!(counters.get(b"requests").unwrap()[8], 5);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct InPlace;

impl Access for InPlace {
    type Value<'v> = Words<'v>;

    #[inline(always)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> Words<'v> {
        let words = address.cast::<AtomicU64>();
        // SAFETY: the caller's promise; records are aligned to words and consist of whole words.
        let words = unsafe { core::slice::from_raw_parts(words, len.div_ceil(size_of::<u64>())) };
        Words { words, len }
    }

    fn append(value: Words<'_>, buffer: &mut Vec<u8>) {
        let end = buffer.len() + value.len;
        // Acquire: a reader that sees a changed word also sees what was written before it.
        let words = value.words.iter().map(|word| word.load(Ordering::Acquire));
        words.for_each(|word| buffer.extend_from_slice(&word.to_ne_bytes()));
        buffer.truncate(end);
    }
}

/// A value that any number of threads may change in place: its bytes as words in the machine's byte
/// order. The last word is filled up with zeros.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain, VARIABLE}};
/// use std::sync::atomic::Ordering::Relaxed;
/// let map: DlhtRecordMap<Format<VARIABLE, 12, Plain, InPlace>> = DlhtRecordMap::new();
/// map.put(b"a", &[1; 12])?;
/// let guard = map.pin();
/// let value = guard.get(b"a").unwrap();
/// assert_eq!((value.len(), value.words().len()), (12, 2));
/// value.word(1).store(7, Relaxed);
/// assert_eq!(map.get(b"a").unwrap(), [1, 1, 1, 1, 1, 1, 1, 1, 7, 0, 0, 0]);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Words<'v> {
    words: &'v [AtomicU64],
    len: usize,
}

impl<'v> Words<'v> {
    /// Returns the length of the value in bytes.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(b"a", b"12345")?;
    /// assert_eq!(map.pin().get(b"a").unwrap().len(), 5);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the value has no bytes.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(b"a", b"")?;
    /// assert!(map.pin().get(b"a").unwrap().is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns all words of the value.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain}};
    /// let map: DlhtRecordMap<Format<8, 32, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(&[0; 8], &[0; 32])?;
    /// assert_eq!(map.pin().get(&[0; 8]).unwrap().words().len(), 4);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn words(self) -> &'v [AtomicU64] {
        self.words
    }

    /// Returns the value's word of index `at`.
    ///
    /// # Panics
    /// If the value has no such word.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain}};
    /// # use std::sync::atomic::Ordering::Relaxed;
    /// let map: DlhtRecordMap<Format<8, 8, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(&[0; 8], &7_u64.to_ne_bytes())?;
    /// assert_eq!(map.pin().get(&[0; 8]).unwrap().word(0).load(Relaxed), 7);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn word(self, at: usize) -> &'v AtomicU64 {
        &self.words[at]
    }
}
