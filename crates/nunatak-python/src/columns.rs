//! NumPy arrays as columns of words, without copying them.

use crate::kind::{Kind, float_key};
use core::marker::PhantomData;
use core::ops::Range;
use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use nunatak_dynamic::BLOCK;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A new array of words.
pub(crate) type WordArray<'py> = Bound<'py, PyArray1<u64>>;

/// An array that a batch reads. Python views signed numbers, floats and times as unsigned integers
/// of the same width before.
pub(crate) enum Input<'py> {
    One(PyReadonlyArray1<'py, u8>),
    Two(PyReadonlyArray1<'py, u16>),
    Four(PyReadonlyArray1<'py, u32>),
    Eight(PyReadonlyArray1<'py, u64>),
}

/// An array that a batch fills.
pub(crate) enum Output<'py> {
    One(PyReadwriteArray1<'py, u8>),
    Two(PyReadwriteArray1<'py, u16>),
    Four(PyReadwriteArray1<'py, u32>),
    Eight(PyReadwriteArray1<'py, u64>),
}

fn not_an_array(array: &Bound<'_, PyAny>) -> PyErr {
    let name = array.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    PyTypeError::new_err(format!(
        "expected an array of unsigned integers with one dimension, not {name}; or another \
         argument of the call is the same memory, and one of them is written"
    ))
}

fn not_contiguous<E>(_: E) -> PyErr {
    PyValueError::new_err("the array is not contiguous")
}

impl<'py> Input<'py> {
    pub(crate) fn new(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = array.extract() {
            return Ok(Self::Eight(array));
        }
        if let Ok(array) = array.extract() {
            return Ok(Self::Four(array));
        }
        if let Ok(array) = array.extract() {
            return Ok(Self::Two(array));
        }
        array.extract().map(Self::One).map_err(|_| not_an_array(array))
    }

    /// `keys_of`: the kind of the keys, if the column has keys.
    pub(crate) fn column(&self, keys_of: Option<&Kind>) -> PyResult<Column<'_>> {
        let float_bits = match keys_of {
            Some(Kind::Float(bits)) => Some(*bits),
            _ => None,
        };
        let items = match self {
            Self::One(array) => Items::One(array.as_slice().map_err(not_contiguous)?),
            Self::Two(array) => Items::Two(array.as_slice().map_err(not_contiguous)?),
            Self::Four(array) => Items::Four(array.as_slice().map_err(not_contiguous)?),
            Self::Eight(array) => Items::Eight(array.as_slice().map_err(not_contiguous)?),
        };
        Ok(Column { items, float_bits })
    }
}

impl<'py> Output<'py> {
    pub(crate) fn new(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = array.extract() {
            return Ok(Self::Eight(array));
        }
        if let Ok(array) = array.extract() {
            return Ok(Self::Four(array));
        }
        if let Ok(array) = array.extract() {
            return Ok(Self::Two(array));
        }
        array.extract().map(Self::One).map_err(|_| not_an_array(array))
    }

    pub(crate) fn column(&mut self) -> PyResult<ColumnMut<'_>> {
        Ok(match self {
            Self::One(array) => ColumnMut::new(array.as_slice_mut().map_err(not_contiguous)?),
            Self::Two(array) => ColumnMut::new(array.as_slice_mut().map_err(not_contiguous)?),
            Self::Four(array) => ColumnMut::new(array.as_slice_mut().map_err(not_contiguous)?),
            Self::Eight(array) => ColumnMut::new(array.as_slice_mut().map_err(not_contiguous)?),
        })
    }
}

#[derive(Clone, Copy)]
enum Items<'a> {
    One(&'a [u8]),
    Two(&'a [u16]),
    Four(&'a [u32]),
    Eight(&'a [u64]),
}

/// A column of words.
#[derive(Clone, Copy)]
pub(crate) struct Column<'a> {
    items: Items<'a>,
    /// Of keys that are floats: how many bits they have.
    float_bits: Option<u32>,
}

impl Column<'_> {
    pub(crate) fn len(&self) -> usize {
        match self.items {
            Items::One(items) => items.len(),
            Items::Two(items) => items.len(),
            Items::Four(items) => items.len(),
            Items::Eight(items) => items.len(),
        }
    }

    /// Returns at most a block of words; copies them into `buffer` only if they have another width
    /// or are floats.
    pub(crate) fn words<'b>(
        &'b self,
        range: Range<usize>,
        buffer: &'b mut [u64; BLOCK],
    ) -> &'b [u64] {
        let len = range.len();
        match self.items {
            Items::Eight(items) if self.float_bits.is_none() => return &items[range],
            Items::Eight(items) => buffer[..len].copy_from_slice(&items[range]),
            Items::Four(items) => widen(&items[range], buffer),
            Items::Two(items) => widen(&items[range], buffer),
            Items::One(items) => widen(&items[range], buffer),
        }
        if let Some(bits) = self.float_bits {
            for word in &mut buffer[..len] {
                *word = float_key(*word, bits);
            }
        }
        &buffer[..len]
    }
}

fn widen<T: Copy + Into<u64>>(items: &[T], buffer: &mut [u64; BLOCK]) {
    for (word, item) in buffer.iter_mut().zip(items) {
        *word = (*item).into();
    }
}

/// A column that several threads fill, each its own part.
pub(crate) struct ColumnMut<'a> {
    start: *mut u8,
    len: usize,
    width: usize,
    items: PhantomData<&'a mut [u8]>,
}

// SAFETY: a mutable slice of integers may be handed to another thread.
unsafe impl Send for ColumnMut<'_> {}

// SAFETY: only `fill` uses the pointer, and its caller gives each position to one thread.
unsafe impl Sync for ColumnMut<'_> {}

impl<'a> ColumnMut<'a> {
    fn new<T>(items: &'a mut [T]) -> Self {
        Self {
            start: items.as_mut_ptr().cast(),
            len: items.len(),
            width: size_of::<T>(),
            items: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the positions of a range of a column of bytes.
    ///
    /// # Safety
    /// No other thread uses a position of the range while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "the caller gives each position to one thread")]
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len && self.width == 1);
        // SAFETY: the range is inside the slice that this was made of, and is the caller's.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// Lets `f` fill the positions of a range, at most a block: with words, of which each position
    /// takes the low bytes.
    ///
    /// # Safety
    /// No other thread fills a position of the range meanwhile.
    pub(crate) unsafe fn fill<R>(
        &self,
        range: Range<usize>,
        buffer: &mut [u64; BLOCK],
        f: impl FnOnce(&mut [u64]) -> R,
    ) -> R {
        assert!(range.start <= range.end && range.end <= self.len && range.len() <= BLOCK);
        // SAFETY: the range is inside the slice that this was made of.
        let start = unsafe { self.start.add(range.start * self.width) };
        if self.width == 8 {
            // SAFETY: the slice has items of 8 bytes, aligned, and the range is this thread's.
            return f(unsafe { core::slice::from_raw_parts_mut(start.cast(), range.len()) });
        }
        let words = &mut buffer[..range.len()];
        // Positions of absent keys keep what they have.
        for (at, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            // SAFETY: as above; an item has `width` bytes.
            let item =
                unsafe { core::slice::from_raw_parts(start.add(at * self.width), self.width) };
            bytes[..self.width].copy_from_slice(item);
            *word = u64::from_le_bytes(bytes);
        }
        let result = f(words);
        for (at, word) in words.iter().enumerate() {
            // SAFETY: as above.
            let item =
                unsafe { core::slice::from_raw_parts_mut(start.add(at * self.width), self.width) };
            item.copy_from_slice(&word.to_le_bytes()[..self.width]);
        }
        result
    }
}
