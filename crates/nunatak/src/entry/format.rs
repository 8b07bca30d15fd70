//! What records are like: which sizes are fixed, how keys are told, and how values are accessed.

use super::entries::{Naming, Plain};
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// A size of a [`Format`] that is another for every record.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, VARIABLE}};
/// let map: DlhtRecordMap<Format<8, VARIABLE>> = DlhtRecordMap::new();
/// assert!(map.put(b"a key of", b"any value").is_ok());
/// assert!(map.put(b"another length", b"").is_err());
/// ```
pub const VARIABLE: usize = usize::MAX;

/// What the records of a [`RecordMap`](crate::RecordMap) are like: of how many bytes their keys
/// and their values are, whether keys have namespaces (`N`: [`Plain`] or
/// [`Named`](super::Named)), and whether values are changed where they are (`V`: [`Frozen`] or
/// [`InPlace`]).
///
/// Sizes that are fixed are not stored. Of fixed keys of at most 8 bytes without namespaces
/// the slot says all, so that looking one up is what it is in an inline map.
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
    /// Of how many bytes a key is, or [`VARIABLE`].
    const KEY: usize;
    /// Of how many bytes a value is, or [`VARIABLE`].
    const VALUE: usize;
    /// How keys are told.
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

/// How values are accessed where they are: [`Frozen`] or [`InPlace`].
///
/// ```
/// use nunatak::entry::{Access, Frozen};
/// let value: <Frozen as Access>::Value<'_> = b"bytes";
/// # assert_eq!(value.len(), 5);
/// ```
pub trait Access: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// A value where it is.
    type Value<'v>: Copy + fmt::Debug;

    /// # Safety
    /// So many bytes are there, of memory that has room for whole words, for `'v`, written,
    /// and from then on accessed as this trait's values are.
    #[doc(hidden)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> Self::Value<'v>;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn append(value: Self::Value<'_>, buffer: &mut Vec<u8>);
}

/// Values that do not change: a slice of bytes. To change one is to store another.
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
        // SAFETY: the caller's promise; nobody writes what is frozen.
        unsafe { core::slice::from_raw_parts(address, len) }
    }

    fn append(value: &[u8], buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(value);
    }
}

/// Values that change where they are, by atomic words (DLHT, section 3.2.1: the pointer
/// interface): see [`Words`].
///
/// Who has a guard may change a value that was replaced or removed meanwhile, and nobody will
/// see it: to remove what others count in is up to the caller.
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
        // SAFETY: the caller's promise; records are aligned to words and take whole ones.
        let words = unsafe { core::slice::from_raw_parts(words, len.div_ceil(size_of::<u64>())) };
        Words { words, len }
    }

    fn append(value: Words<'_>, buffer: &mut Vec<u8>) {
        let end = buffer.len() + value.len;
        // Acquire: what was changed before a word is seen with it.
        let words = value.words.iter().map(|word| word.load(Ordering::Acquire));
        words.for_each(|word| buffer.extend_from_slice(&word.to_ne_bytes()));
        buffer.truncate(end);
    }
}

/// A value that may be changed where it is, by any number of threads: its bytes as words, of
/// the machine's byte order, of which the last is filled up with zeros.
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
    /// Of how many bytes it is.
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

    /// Whether it has no bytes.
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

    /// All of its words.
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

    /// One of its words.
    ///
    /// # Panics
    /// If it has fewer.
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
