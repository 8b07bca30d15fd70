//! The class `Column`: numbers or strings as Arrow has them.

use super::ffi::{Array, Released, Schema, Stream, capsule, taken};
use super::made::{Strings, numbers};
use super::part::{Format, Owner, Part, format};
use crate::columns::Input;
use crate::kind::Kind;
use core::ffi::{CStr, c_char, c_void};
use core::ops::Range;
use numpy::ndarray::ArrayView1;
use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use nunatak_dynamic::BLOCK;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use std::ffi::CString;
use std::sync::Arc;

/// Arrays of one type, one behind the other.
pub(crate) struct Parts {
    parts: Vec<Part>,
    /// Where each part ends.
    ends: Vec<usize>,
    nulls: usize,
}

impl Parts {
    fn of(parts: Vec<Part>) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.len;
            end
        });
        let (ends, nulls) = (ends.collect(), parts.iter().map(|part| part.nulls).sum());
        Self { parts, ends, nulls }
    }

    /// Makes parts of strings that were collected.
    pub(crate) fn of_strings(strings: impl IntoIterator<Item = Strings>) -> Self {
        Self::of(strings.into_iter().map(Strings::finish).collect())
    }

    /// Copies the bytes of an array of numbers; the mask tells which of them are there.
    pub(crate) fn of_words(
        words: &Bound<'_, PyAny>,
        kind: &Kind,
        is_key: bool,
        there: Option<&[bool]>,
    ) -> PyResult<Self> {
        let (input, mut strings) = (Input::new(words)?, Strings::new());
        let column = input.column(is_key.then_some(kind))?;
        if there.is_some_and(|there| there.len() != column.len()) {
            return Err(PyValueError::new_err("the mask is as long as the column"));
        }
        let mut buffer = [0; BLOCK];
        for start in (0..column.len()).step_by(BLOCK) {
            let words = column.words(start..column.len().min(start + BLOCK), &mut buffer);
            for (at, word) in (start..).zip(words) {
                let is_there = there.is_none_or(|there| there[at]);
                strings.push(is_there.then_some(&word.to_le_bytes()));
            }
        }
        Ok(Self::of_strings([strings]))
    }

    /// Copies what a map of this kind holds: from any iterable, or from an array of numbers.
    pub(crate) fn of_items(
        items: &Bound<'_, PyAny>,
        kind: &Kind,
        is_key: bool,
        allows_nulls: bool,
    ) -> PyResult<Self> {
        if kind.is_word() {
            return Self::of_words(items, kind, is_key, None);
        }
        let mut strings = Strings::new();
        for item in items.try_iter()? {
            let item = item?;
            match allows_nulls && item.is_none() {
                true => strings.push(None),
                false => kind.with_bytes(&item, is_key, |bytes| strings.push(Some(bytes)))?,
            }
        }
        Ok(Self::of_strings([strings]))
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(crate) fn has_nulls(&self) -> bool {
        self.nulls > 0
    }

    /// The part that has an item, and the item's position there.
    #[inline]
    fn place(&self, at: usize) -> (&Part, usize) {
        // Most columns have one part.
        let index = match self.parts.len() {
            1 => 0,
            _ => self.ends.partition_point(|end| *end <= at),
        };
        let part = &self.parts[index];
        (part, at - (self.ends[index] - part.len))
    }

    /// The string of an item; `None` if it is null.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let (part, at) = self.place(at);
        part.get(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.parts.iter().flat_map(|part| (0..part.len).map(|at| part.get(at)))
    }

    /// The number of an item; `None` if it is null.
    fn word(&self, at: usize) -> Option<u64> {
        let (part, at) = self.place(at);
        (!part.is_null(at)).then(|| part.word(at))
    }

    /// The strings of a range that are not null, and their positions.
    pub(crate) fn block(&self, range: Range<usize>) -> (Vec<&[u8]>, Vec<usize>) {
        range.filter_map(|at| self.get(at).map(|item| (item, at))).unzip()
    }

    /// A new array of items of these positions.
    fn chosen(&self, positions: impl Iterator<Item = usize>, format: &Format) -> Part {
        match format {
            Format::Words(_) | Format::Bits => numbers(positions.map(|at| self.word(at)), format),
            _ => {
                let mut strings = Strings::new();
                positions.for_each(|at| strings.push(self.get(at)));
                strings.finish()
            }
        }
    }
}

/// A column of numbers or strings in Arrow's layout.
///
/// Column(data)
///
/// `data` is a column of pyarrow, Polars, pandas or another library with Arrow's PyCapsule interface.
/// A column has that interface, too: `pyarrow.array(column)` takes it without a copy, and
/// `polars.Series(column)` takes it, too. A column does not change.
#[pyclass(frozen, name = "Column", module = "nunatak")]
pub(crate) struct ArrowColumn {
    pub(crate) kind: Kind,
    format: Format,
    pub(crate) parts: Parts,
}

impl ArrowColumn {
    pub(crate) fn of_parts(kind: &Kind, parts: Parts) -> Self {
        Self { kind: kind.clone(), format: Format::Large, parts }
    }

    fn object(&self, py: Python<'_>, at: usize) -> PyResult<Py<PyAny>> {
        if self.kind.is_word() {
            return self
                .parts
                .word(at)
                .map_or_else(|| Ok(py.None()), |word| self.kind.object_of(py, word));
        }
        let item = self.parts.get(at);
        item.map_or_else(|| Ok(py.None()), |item| self.kind.object_of_bytes(py, item))
    }

    fn with(&self, part: Part) -> Self {
        let format = match &self.format {
            format @ (Format::Words(_) | Format::Bits) => format.clone(),
            _ => Format::Large,
        };
        Self { kind: self.kind.clone(), format, parts: Parts::of(vec![part]) }
    }

    /// The name of the column's type in the interface.
    fn format_name(&self) -> PyResult<String> {
        let unit = |unit: &str| match unit {
            "s" | "us" | "ns" => unit.get(..1).map(str::to_owned),
            "ms" => Some("m".to_owned()),
            _ => None,
        };
        let name = match (&self.kind, &self.format) {
            (Kind::Unsigned(bits), _) => {
                Some(["C", "S", "I", "L"][bits.ilog2() as usize - 3].to_owned())
            }
            (Kind::Signed(bits), _) => {
                Some(["c", "s", "i", "l"][bits.ilog2() as usize - 3].to_owned())
            }
            (Kind::Float(32), _) => Some("f".to_owned()),
            (Kind::Float(_), _) => Some("g".to_owned()),
            (Kind::Bool, _) => Some("b".to_owned()),
            (Kind::Str, _) => Some("U".to_owned()),
            (Kind::Bytes, _) => Some("Z".to_owned()),
            (Kind::Time { .. }, Format::Words(4)) => Some("tdD".to_owned()),
            (Kind::Time { is_span: true, unit: of }, _) => unit(of).map(|unit| format!("tD{unit}")),
            (Kind::Time { unit: of, .. }, _) => unit(of).map(|unit| format!("ts{unit}:")),
            (Kind::Object, _) => None,
        };
        name.ok_or_else(|| {
            PyTypeError::new_err(format!("Arrow has no columns of type {}", self.kind.name()))
        })
    }

    fn schema(&self) -> PyResult<Schema> {
        unsafe extern "C" fn release(schema: *mut Schema) {
            // SAFETY: the owner of the schema calls this once.
            unsafe {
                drop(CString::from_raw((*schema).private_data.cast()));
                (*schema).release = None;
            }
        }
        const NULLABLE: i64 = 2;
        let name = CString::new(self.format_name()?)?.into_raw();
        let mut schema = Schema::RELEASED;
        (schema.format, schema.name, schema.flags) = (name, c"".as_ptr(), NULLABLE);
        schema.release = Some(release);
        schema.private_data = name.cast();
        Ok(schema)
    }

    /// The column as one array of the interface; copied unless it is one already.
    fn array(&self) -> Array {
        match &*self.parts.parts {
            [part] => exported(part),
            _ => None,
        }
        .or_else(|| exported(&self.parts.chosen(0..self.parts.len(), &self.format)))
        .unwrap_or(Array::RELEASED)
    }
}

/// What an array that was given out keeps.
struct Exported {
    /// Null-pointers stand for buffers that the array does not have.
    buffers: [*const c_void; 3],
    _owner: Arc<Owner>,
}

/// Gives an array out, if its format is one in which arrays are given out.
fn exported(part: &Part) -> Option<Array> {
    unsafe extern "C" fn release(array: *mut Array) {
        // SAFETY: the owner of the array calls this once.
        unsafe {
            drop(Box::from_raw((*array).private_data.cast::<Exported>()));
            (*array).release = None;
        }
    }
    let (buffers, offset, count) = part.buffers()?;
    let kept = Box::into_raw(Box::new(Exported { buffers, _owner: Arc::clone(&part.owner) }));
    let mut array = Array::RELEASED;
    (array.length, array.null_count) = (part.len as i64, part.nulls as i64);
    (array.offset, array.n_buffers) = (offset as i64, count);
    // SAFETY: the box lives until the array is released.
    array.buffers = unsafe { &raw mut (*kept).buffers }.cast();
    array.release = Some(release);
    array.private_data = kept.cast();
    Some(array)
}

/// A string of the interface.
///
/// # Safety
/// The pointer is null, or to a string that ends with a zero and lives as long.
unsafe fn text<'a>(at: *const c_char) -> PyResult<&'a str> {
    if at.is_null() {
        return Err(PyValueError::new_err("the Arrow schema has no format"));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map_err(|_| PyValueError::new_err("the Arrow schema has a format that is no text"))
}

fn format_of(schema: &Schema) -> PyResult<(Format, Kind)> {
    // SAFETY: the schema is one of the interface, and was not released.
    unsafe {
        let dictionary = schema.dictionary.as_ref().map(|of| text(of.format)).transpose()?;
        format(text(schema.format)?, dictionary)
    }
}

/// An array of words, and one that tells which of them are there.
type WordsAndMask = (Py<PyAny>, Option<Py<PyAny>>);

#[pymethods]
impl ArrowColumn {
    #[new]
    #[pyo3(signature = (data, /))]
    fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut arrays = vec![];
        let (format, kind);
        if let Some(get) = data.getattr_opt("__arrow_c_array__")? {
            let capsules = get.call0()?.cast_into::<PyTuple>()?;
            (format, kind) = format_of(&taken::<Schema>(&capsules.get_item(0)?)?)?;
            arrays.push(taken::<Array>(&capsules.get_item(1)?)?);
        } else if let Some(get) = data.getattr_opt("__arrow_c_stream__")? {
            let mut stream = taken::<Stream>(&get.call0()?)?;
            (format, kind) = format_of(&stream.schema()?)?;
            while let Some(array) = stream.next()? {
                arrays.push(array);
            }
        } else {
            let name = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected an Arrow column, not {name}")));
        }
        // SAFETY: the arrays came with this schema.
        let part = |array| unsafe { Part::of_array(array, &format) };
        let parts = arrays.into_iter().map(part).collect::<PyResult<Vec<_>>>()?;
        Ok(Self { kind, parts: Parts::of(parts), format })
    }

    /// Makes a column of strings, or byte strings.
    #[staticmethod]
    fn _of_strings(items: &Bound<'_, PyAny>, kind: &str) -> PyResult<Self> {
        let kind = Kind::parse(kind)?;
        Ok(Self::of_parts(&kind, Parts::of_items(items, &kind, false, true)?))
    }

    /// Makes a column of words; the mask tells which are there.
    #[staticmethod]
    fn _of_words(
        words: &Bound<'_, PyAny>,
        mask: Option<PyReadonlyArray1<'_, bool>>,
        kind: &str,
    ) -> PyResult<Self> {
        let kind = Kind::parse(kind)?;
        let input = Input::new(words)?;
        let column = input.column(None)?;
        let mask = mask.as_ref().map(|mask| mask.as_slice()).transpose()?;
        if mask.is_some_and(|mask| mask.len() != column.len()) {
            return Err(PyValueError::new_err("the mask is as long as the column"));
        }
        let format = match kind {
            Kind::Bool => Format::Bits,
            _ => Format::Words(kind.bits() as usize / 8),
        };
        let mut buffer = Box::new([0; BLOCK]);
        let mut all = Vec::with_capacity(column.len());
        for start in (0..column.len()).step_by(BLOCK) {
            all.extend_from_slice(
                column.words(start..column.len().min(start + BLOCK), &mut buffer),
            );
        }
        let items = all.iter().enumerate();
        let part = numbers(
            items.map(|(at, word)| mask.is_none_or(|mask| mask[at]).then_some(*word)),
            &format,
        );
        let column = Self { kind, format, parts: Parts::of(vec![part]) };
        column.format_name().map(|_| column)
    }

    /// The type of the items.
    #[getter]
    fn r#type(&self) -> String {
        self.kind.name()
    }

    /// How many items are null.
    #[getter]
    fn null_count(&self) -> usize {
        self.parts.nulls
    }

    fn __len__(&self) -> usize {
        self.parts.len()
    }

    fn __getitem__(&self, py: Python<'_>, at: isize) -> PyResult<Py<PyAny>> {
        let len = self.parts.len();
        let at = if at < 0 { at.checked_add_unsigned(len) } else { Some(at) };
        match at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < len) {
            Some(at) => self.object(py, at),
            None => Err(PyIndexError::new_err("the column has no such item")),
        }
    }

    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Ok(slf.get().tolist(slf.py())?.try_iter()?.into_any().unbind())
    }

    fn __repr__(&self) -> String {
        let (len, nulls) = (self.parts.len(), self.parts.nulls);
        format!("Column({:?}, {len} items, {nulls} nulls)", self.kind.name())
    }

    /// Return the items as a list, with None for nulls.
    ///
    /// >>> import nunatak
    /// >>> nunatak.Map("u64", "str", {1: "a"}).get_many([1, 2], arrow=True).tolist()
    /// ['a', None]
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = (0..self.parts.len()).map(|at| self.object(py, at));
        PyList::new(py, all.collect::<PyResult<Vec<_>>>()?)
    }

    /// Return a column of the items at these positions.
    ///
    /// >>> import nunatak
    /// >>> column = nunatak.Map("u64", "str", {1: "a"}).get_many([1, 2], arrow=True)
    /// >>> column.take([1, 0, 0]).tolist()
    /// [None, 'a', 'a']
    fn take(&self, positions: &Bound<'_, PyAny>) -> PyResult<Self> {
        let array =
            positions.py().import("numpy")?.call_method1("asarray", (positions, "int64"))?;
        let positions: PyReadonlyArray1<'_, i64> = array.extract()?;
        let positions = positions.as_array();
        let len = self.parts.len() as i64;
        if positions.iter().any(|at| !(0..len).contains(at)) {
            return Err(PyIndexError::new_err("the column has no such item"));
        }
        Ok(self.with(self.parts.chosen(positions.iter().map(|at| *at as usize), &self.format)))
    }

    /// Returns the arrays of a column of numbers, as words, each with a mask if it has nulls.
    fn _numbers(slf: &Bound<'_, Self>) -> PyResult<Vec<WordsAndMask>> {
        let (py, column) = (slf.py(), slf.get());
        let arrays = column.parts.parts.iter().map(|part| {
            let is_there = || (0..part.len).map(|at| !part.is_null(at)).collect::<Vec<_>>();
            let mask = (part.nulls > 0).then(|| is_there().into_pyarray(py).into_any().unbind());
            let words = match column.format {
                Format::Words(8) => borrowed::<u64>(slf, part)?,
                // Days of 4 bytes become words.
                Format::Words(4) if !matches!(column.kind, Kind::Time { .. }) => {
                    borrowed::<u32>(slf, part)?
                }
                Format::Words(4) => {
                    let days = (0..part.len)
                        .map(|at| i64::from(part.word(at) as u32 as i32).cast_unsigned());
                    days.collect::<Vec<_>>().into_pyarray(py).into_any()
                }
                Format::Words(2) => borrowed::<u16>(slf, part)?,
                Format::Words(_) => borrowed::<u8>(slf, part)?,
                Format::Bits => {
                    let bits = (0..part.len).map(|at| part.word(at) as u8);
                    bits.collect::<Vec<_>>().into_pyarray(py).into_any()
                }
                _ => return Err(PyTypeError::new_err("the column has no numbers")),
            };
            Ok((words.unbind(), mask))
        });
        arrays.collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(py, self.schema()?)
    }

    /// The type is the column's own, whatever was requested.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        Ok((capsule(py, self.schema()?)?, capsule(py, self.array())?))
    }
}

/// The numbers of a part as an array that can't be written, in the part's own memory.
fn borrowed<'py, T: Element + Copy>(
    column: &Bound<'py, ArrowColumn>,
    part: &Part,
) -> PyResult<Bound<'py, PyAny>> {
    let start = part.numbers()?.cast::<T>();
    if part.len == 0 {
        return Ok(PyArray1::<T>::zeros(column.py(), 0, false).into_any());
    }
    if !start.is_aligned() {
        // SAFETY: invariant P.
        let items = (0..part.len).map(|at| unsafe { start.add(at).read_unaligned() });
        return Ok(items.collect::<Vec<_>>().into_pyarray(column.py()).into_any());
    }
    // SAFETY: invariant P; the column keeps the part, and the array keeps the column.
    let array = unsafe {
        let view = ArrayView1::from_shape_ptr(part.len, start);
        PyArray1::borrow_from_array(&view, column.clone().into_any())
    };
    array.call_method1("setflags", (false,))?;
    Ok(array.into_any())
}
