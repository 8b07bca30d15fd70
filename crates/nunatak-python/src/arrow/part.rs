//! One array of Arrow: its items, where they lie.
//!
//! **Invariant P**: `items` and `validity` point into buffers of `owner`, which does not change them,
//! and which have all items of the part. For strings that was checked when the part was made: each
//! item lies within its buffer, as far as the interface tells the buffer's size.

use crate::kind::Kind;
use core::ffi::c_void;
use core::ptr::null;
use core::slice;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

use super::ffi::{Array, Released};

/// What an array has beside its length: what its format says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// Items of this many bytes.
    Words(usize),
    /// Items of a bit.
    Bits,
    /// Strings with offsets of 4 bytes.
    Small,
    /// Strings with offsets of 8 bytes.
    Large,
    /// Strings of which the short ones are in their places.
    Views,
    /// Positions of this many bytes in an array of strings.
    Dictionary(usize, Box<Format>),
}

#[derive(Debug, Clone, Copy)]
enum Items {
    Words {
        at: *const u8,
        width: usize,
    },
    Bits(*const u8),
    Small {
        offsets: *const i32,
        bytes: *const u8,
    },
    Large {
        offsets: *const i64,
        bytes: *const u8,
    },
    /// There are `count` buffers of strings, and one behind them that has their sizes.
    Views {
        views: *const [u8; 16],
        buffers: *const *const u8,
        count: usize,
    },
}

/// Buffers of an array that came from elsewhere, or of one that was made here: the other is empty.
pub(super) struct Owner {
    array: Array,
    made: Made,
}

/// Buffers that were made here.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// A bit for each item; empty if all are valid.
    pub(super) validity: Vec<u8>,
    /// Of strings: one more than there are items.
    pub(super) offsets: Vec<i64>,
    /// Of strings.
    pub(super) bytes: Vec<u8>,
    /// Of numbers: their bytes side by side.
    pub(super) words: Vec<u64>,
}

/// An array.
pub(super) struct Part {
    pub(super) len: usize,
    /// The position of the first item in the buffers.
    offset: usize,
    pub(super) nulls: usize,
    validity: *const u8,
    items: Items,
    /// The items are positions there, of this many bytes.
    dictionary: Option<Box<Part>>,
    pub(super) owner: Arc<Owner>,
}

// SAFETY: invariant P: the buffers do not change, and any thread may release them.
unsafe impl Send for Part {}

// SAFETY: as above.
unsafe impl Sync for Part {}

fn broken(what: &str) -> PyErr {
    PyValueError::new_err(format!("the Arrow array is broken: {what}"))
}

fn bit(bits: *const u8, at: usize) -> bool {
    // SAFETY: callers pass a position below the array's length.
    unsafe { *bits.add(at / 8) >> (at % 8) & 1 == 1 }
}

impl Part {
    /// # Safety
    /// The array is one of the interface, and its format is this one.
    pub(super) unsafe fn of_array(array: Array, format: &Format) -> PyResult<Self> {
        let owner = Arc::new(Owner { array, made: Made::default() });
        // SAFETY: the caller's promise.
        let mut part = unsafe { Self::of_owned(&owner.array, format, Arc::clone(&owner))? };
        part.check()?;
        Ok(part)
    }

    /// # Safety
    /// As [`of_array`](Self::of_array); the owner keeps the array.
    unsafe fn of_owned(array: &Array, format: &Format, owner: Arc<Owner>) -> PyResult<Self> {
        let number = |number: i64| usize::try_from(number).map_err(|_| broken("a negative number"));
        let (len, offset) = (number(array.length)?, number(array.offset)?);
        // A view has 16 bytes, and nothing here has more.
        if len.checked_add(offset).is_none_or(|end| end > isize::MAX as usize / 16) {
            return Err(broken("it exceeds the address space"));
        }
        let wanted = match format {
            Format::Words(_) | Format::Bits | Format::Dictionary(..) => 2,
            // Views have as many buffers as they like, and their sizes in the last one.
            Format::Small | Format::Large | Format::Views => 3,
        };
        if number(array.n_buffers)? < wanted || array.buffers.is_null() {
            return Err(broken("it lacks a buffer"));
        }
        let buffer = |at: usize| -> *const c_void {
            // SAFETY: there are as many buffers.
            unsafe { *array.buffers.add(at) }
        };
        let validity = if array.null_count == 0 { null() } else { buffer(0).cast() };
        if len > 0 && buffer(1).is_null() {
            return Err(broken("it lacks a buffer"));
        }
        let (mut dictionary, at) = (None, buffer(1));
        let items = match format {
            Format::Words(width) => Items::Words { at: at.cast(), width: *width },
            Format::Bits => Items::Bits(at.cast()),
            Format::Small => Items::Small { offsets: at.cast(), bytes: buffer(2).cast() },
            Format::Large => Items::Large { offsets: at.cast(), bytes: buffer(2).cast() },
            Format::Views => {
                // SAFETY: the buffers of bytes follow the first two.
                let buffers = unsafe { array.buffers.add(2) }.cast();
                Items::Views { views: at.cast(), buffers, count: number(array.n_buffers)? - 3 }
            }
            Format::Dictionary(width, of) => {
                // SAFETY: the pointer is null, or to an array that this one owns.
                let strings = unsafe { array.dictionary.as_ref() };
                let strings = strings.ok_or_else(|| broken("it lacks its dictionary"))?;
                // SAFETY: the caller's promise.
                dictionary =
                    Some(Box::new(unsafe { Self::of_owned(strings, of, Arc::clone(&owner))? }));
                Items::Words { at: at.cast(), width: *width }
            }
        };
        Ok(Self { len, offset, nulls: 0, validity, items, dictionary, owner })
    }

    /// Holds invariant P, and counts the nulls.
    fn check(&mut self) -> PyResult<()> {
        if let Some(dictionary) = &mut self.dictionary {
            dictionary.check()?;
        }
        self.check_strings()?;
        let strings = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.len);
        let is_plain = self.dictionary.is_none() && self.validity.is_null();
        for at in 0..if is_plain { 0 } else { self.len } {
            if !self.is_valid(at) {
                self.nulls += 1;
                continue;
            }
            if self.dictionary.is_some() && self.position(at) >= strings {
                return Err(broken("an item exceeds the dictionary"));
            }
            self.nulls += usize::from(self.is_null(at));
        }
        if self.nulls == 0 {
            self.validity = null();
        }
        Ok(())
    }

    fn check_strings(&self) -> PyResult<()> {
        if self.len == 0 {
            return Ok(());
        }
        let is_ordered = match self.items {
            Items::Words { .. } | Items::Bits(_) => return Ok(()),
            Items::Views { views, buffers, count } => {
                return self.check_views(views, buffers, count);
            }
            Items::Small { .. } | Items::Large { .. } => {
                // Without a branch for each item.
                let mut is_ordered = self.edge(0) >= 0;
                for at in 0..self.len {
                    is_ordered &= self.edge(at) <= self.edge(at + 1);
                }
                is_ordered
            }
        };
        if !is_ordered {
            return Err(broken("its offsets are not in order"));
        }
        match self.items {
            Items::Small { bytes, .. } | Items::Large { bytes, .. }
                if bytes.is_null() && self.edge(self.len) > self.edge(0) =>
            {
                Err(broken("it lacks a buffer"))
            }
            _ => Ok(()),
        }
    }

    fn check_views(
        &self,
        views: *const [u8; 16],
        buffers: *const *const u8,
        count: usize,
    ) -> PyResult<()> {
        // SAFETY: the last buffer has the sizes of those between it and the views.
        let sizes: *const i64 = unsafe { *buffers.add(count) }.cast();
        for at in 0..self.len {
            if !self.is_valid(at) {
                continue;
            }
            // SAFETY: the array has as many views.
            let view = View::of(unsafe { views.add(self.offset + at).read_unaligned() });
            if view.len <= View::IN_PLACE {
                continue;
            }
            if view.buffer >= count || sizes.is_null() {
                return Err(broken("a view names no buffer"));
            }
            // SAFETY: as above.
            let size = unsafe { sizes.add(view.buffer).read_unaligned() };
            if view.start as i64 + view.len as i64 > size {
                return Err(broken("a view exceeds its buffer"));
            }
        }
        Ok(())
    }

    /// Makes a part of buffers.
    pub(super) fn of_made(made: Made, format: &Format, len: usize) -> Self {
        let owner = Arc::new(Owner { array: Array::RELEASED, made });
        let made = &owner.made;
        let items = match format {
            Format::Words(width) => Items::Words { at: made.words.as_ptr().cast(), width: *width },
            Format::Bits => Items::Bits(made.words.as_ptr().cast()),
            _ => Items::Large { offsets: made.offsets.as_ptr(), bytes: made.bytes.as_ptr() },
        };
        let is_null = |at: &usize| made.validity[at / 8] >> (at % 8) & 1 == 0;
        let nulls = match made.validity.is_empty() {
            true => 0,
            false => (0..len).filter(is_null).count(),
        };
        let validity = if nulls == 0 { null() } else { made.validity.as_ptr() };
        Self { len, offset: 0, nulls, validity, items, dictionary: None, owner }
    }

    /// Whether the item is there, by the array's own bits.
    fn is_valid(&self, at: usize) -> bool {
        self.validity.is_null() || bit(self.validity, self.offset + at)
    }

    /// An offset.
    fn edge(&self, at: usize) -> i64 {
        debug_assert!(at <= self.len);
        // SAFETY: invariant P: there is one more offset than items.
        unsafe {
            match self.items {
                Items::Small { offsets, .. } => {
                    offsets.add(self.offset + at).read_unaligned().into()
                }
                Items::Large { offsets, .. } => offsets.add(self.offset + at).read_unaligned(),
                _ => 0,
            }
        }
    }

    /// A position in the dictionary.
    fn position(&self, at: usize) -> usize {
        usize::try_from(self.word(at)).unwrap_or(usize::MAX)
    }

    /// An item that is a number, of at most 8 bytes.
    pub(super) fn word(&self, at: usize) -> u64 {
        debug_assert!(at < self.len);
        match self.items {
            Items::Words { at: start, width } => {
                let mut word = [0; 8];
                // SAFETY: invariant P.
                let item =
                    unsafe { slice::from_raw_parts(start.add((self.offset + at) * width), width) };
                word[..width].copy_from_slice(item);
                u64::from_le_bytes(word)
            }
            Items::Bits(bits) => bit(bits, self.offset + at).into(),
            _ => 0,
        }
    }

    /// The string of an item; `None` if it is null.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        if !self.is_valid(at) {
            return None;
        }
        if let Some(dictionary) = &self.dictionary {
            return dictionary.get(self.position(at));
        }
        // SAFETY: invariant P: the item lies within its buffer, which lives as long as the part.
        unsafe {
            match self.items {
                Items::Small { bytes, .. } | Items::Large { bytes, .. } => {
                    let (start, end) = (self.edge(at), self.edge(at + 1));
                    match end == start {
                        true => Some(&[]),
                        false => Some(slice::from_raw_parts(
                            bytes.add(start as usize),
                            (end - start) as usize,
                        )),
                    }
                }
                Items::Views { views, buffers, .. } => {
                    let place = views.add(self.offset + at);
                    let view = View::of(place.read_unaligned());
                    Some(match view.len <= View::IN_PLACE {
                        true => slice::from_raw_parts(place.cast::<u8>().add(4), view.len),
                        false => slice::from_raw_parts(
                            (*buffers.add(view.buffer)).add(view.start),
                            view.len,
                        ),
                    })
                }
                Items::Words { .. } | Items::Bits(_) => None,
            }
        }
    }

    /// Whether an item is null.
    pub(super) fn is_null(&self, at: usize) -> bool {
        !self.is_valid(at)
            || self.dictionary.as_ref().is_some_and(|strings| strings.is_null(self.position(at)))
    }

    /// The bytes of numbers, where they lie.
    pub(super) fn numbers(&self) -> PyResult<*const u8> {
        match (self.items, &self.dictionary) {
            (Items::Words { at, width }, None) => Ok(at.wrapping_add(self.offset * width)),
            _ => Err(PyTypeError::new_err("the column has no numbers")),
        }
    }

    /// The buffers, the first item's position and the number of buffers, as the interface wants them.
    /// `None` if the column is not given out in this format.
    pub(super) fn buffers(&self) -> Option<([*const c_void; 3], usize, i64)> {
        let validity = self.validity.cast();
        match (self.items, &self.dictionary) {
            (Items::Words { at, .. }, None) => {
                Some(([validity, at.cast(), null()], self.offset, 2))
            }
            (Items::Bits(bits), _) => Some(([validity, bits.cast(), null()], self.offset, 2)),
            (Items::Large { offsets, bytes }, _) => {
                Some(([validity, offsets.cast(), bytes.cast()], self.offset, 3))
            }
            _ => None,
        }
    }
}

/// The 16 bytes of an item of an array of views.
struct View {
    len: usize,
    buffer: usize,
    start: usize,
}

impl View {
    /// Strings up to this length are in the view.
    const IN_PLACE: usize = 12;

    /// A length that is negative is one that exceeds every buffer.
    fn of(bytes: [u8; 16]) -> Self {
        let number = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word) as usize
        };
        Self { len: number(0), buffer: number(8), start: number(12) }
    }
}

/// What a format of the interface means here: how items lie, and what they are.
pub(super) fn format(name: &str, dictionary: Option<&str>) -> PyResult<(Format, Kind)> {
    let refused = || {
        PyTypeError::new_err(match name.starts_with('+') {
            true => {
                "expected a column of numbers or strings, not a table or a nested column".to_owned()
            }
            false => format!("a map has no keys or values of the Arrow type {name:?}"),
        })
    };
    let time = |unit: char, is_span| {
        let unit = match unit {
            's' => "s",
            'm' => "ms",
            'u' => "us",
            _ => "ns",
        };
        Kind::Time { is_span, unit: unit.to_owned() }
    };
    let known = match name.as_bytes() {
        b"c" => (Format::Words(1), Kind::Signed(8)),
        b"C" => (Format::Words(1), Kind::Unsigned(8)),
        b"s" => (Format::Words(2), Kind::Signed(16)),
        b"S" => (Format::Words(2), Kind::Unsigned(16)),
        b"i" => (Format::Words(4), Kind::Signed(32)),
        b"I" => (Format::Words(4), Kind::Unsigned(32)),
        b"l" => (Format::Words(8), Kind::Signed(64)),
        b"L" => (Format::Words(8), Kind::Unsigned(64)),
        b"f" => (Format::Words(4), Kind::Float(32)),
        b"g" => (Format::Words(8), Kind::Float(64)),
        b"b" => (Format::Bits, Kind::Bool),
        b"u" => (Format::Small, Kind::Str),
        b"U" => (Format::Large, Kind::Str),
        b"vu" => (Format::Views, Kind::Str),
        b"z" => (Format::Small, Kind::Bytes),
        b"Z" => (Format::Large, Kind::Bytes),
        b"vz" => (Format::Views, Kind::Bytes),
        b"tdD" => (Format::Words(4), Kind::Time { is_span: false, unit: "D".to_owned() }),
        b"tdm" => (Format::Words(8), time('m', false)),
        // The time zone behind the colon says how an instant is shown.
        [b't', b's', unit @ (b's' | b'm' | b'u' | b'n'), b':', ..] => {
            (Format::Words(8), time((*unit).into(), false))
        }
        [b't', b'D', unit @ (b's' | b'm' | b'u' | b'n')] => {
            (Format::Words(8), time((*unit).into(), true))
        }
        _ => return Err(refused()),
    };
    let Some(dictionary) = dictionary else { return Ok(known) };
    let (of, kind) = format(dictionary, None)?;
    match (known.0, of) {
        (Format::Words(width), of @ (Format::Small | Format::Large | Format::Views)) => {
            Ok((Format::Dictionary(width, Box::new(of)), kind))
        }
        _ => Err(PyTypeError::new_err(
            "a dictionary column must have strings: decode it into numbers first",
        )),
    }
}
