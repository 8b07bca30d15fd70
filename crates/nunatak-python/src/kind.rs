//! What keys and values are: from a Python object to a word or to bytes, and back.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt};

/// The type of a map's keys or values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An integer of this many bits.
    Unsigned(u32),
    /// An integer of this many bits.
    Signed(u32),
    /// A float of this many bits.
    Float(u32),
    Bool,
    /// `datetime64` or `timedelta64` with the unit between brackets.
    Time {
        is_span: bool,
        unit: String,
    },
    Str,
    Bytes,
    Object,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> PyResult<Self> {
        let time = |rest: &str, is_span| {
            let unit = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            unit.map(|unit| Self::Time { is_span, unit: unit.to_owned() })
        };
        let kind = match name {
            "u8" => Some(Self::Unsigned(8)),
            "u16" => Some(Self::Unsigned(16)),
            "u32" => Some(Self::Unsigned(32)),
            "u64" => Some(Self::Unsigned(64)),
            "i8" => Some(Self::Signed(8)),
            "i16" => Some(Self::Signed(16)),
            "i32" => Some(Self::Signed(32)),
            "i64" => Some(Self::Signed(64)),
            "f32" => Some(Self::Float(32)),
            "f64" => Some(Self::Float(64)),
            "bool" => Some(Self::Bool),
            "str" => Some(Self::Str),
            "bytes" => Some(Self::Bytes),
            "object" => Some(Self::Object),
            _ => name
                .strip_prefix("datetime64")
                .and_then(|rest| time(rest, false))
                .or_else(|| name.strip_prefix("timedelta64").and_then(|rest| time(rest, true))),
        };
        kind.ok_or_else(|| {
            PyTypeError::new_err(format!("a map has no keys or values of type {name}"))
        })
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Unsigned(bits) => format!("u{bits}"),
            Self::Signed(bits) => format!("i{bits}"),
            Self::Float(bits) => format!("f{bits}"),
            Self::Bool => "bool".to_owned(),
            Self::Time { is_span, unit } => {
                format!("{}[{unit}]", if *is_span { "timedelta64" } else { "datetime64" })
            }
            Self::Str => "str".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Object => "object".to_owned(),
        }
    }

    /// Whether a value is a word of 8 bytes.
    pub(crate) fn is_word(&self) -> bool {
        !matches!(self, Self::Str | Self::Bytes | Self::Object)
    }

    /// How many low bits of a word tell values apart.
    pub(crate) fn bits(&self) -> u32 {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) => *bits,
            Self::Bool => 1,
            Self::Time { .. } | Self::Str | Self::Bytes | Self::Object => 64,
        }
    }

    /// Makes a Python object into a word. `is_key`: equal keys must have equal words.
    pub(crate) fn to_word(&self, object: &Bound<'_, PyAny>, is_key: bool) -> PyResult<u64> {
        let py = object.py();
        let word = match self {
            Self::Unsigned(64) => unsigned(object),
            Self::Unsigned(bits) => unsigned(object).and_then(|number| {
                if number >> bits == 0 { Ok(number) } else { Err(self.exceeded(object)) }
            }),
            Self::Signed(64) => signed(object).map(i64::cast_unsigned),
            Self::Signed(bits) => signed(object).and_then(|number| {
                let shift = 64 - bits;
                let narrow = number << shift;
                match narrow >> shift == number {
                    true => Ok(narrow.cast_unsigned() >> shift),
                    false => Err(self.exceeded(object)),
                }
            }),
            Self::Float(bits) => object.extract::<f64>().map(|number| {
                let word = match bits {
                    32 => u64::from((number as f32).to_bits()),
                    _ => number.to_bits(),
                };
                if is_key { float_key(word, *bits) } else { word }
            }),
            Self::Bool => object.extract::<bool>().map(u64::from),
            Self::Time { is_span, unit } => {
                let numpy = py.import("numpy")?;
                let name = if *is_span { "timedelta64" } else { "datetime64" };
                let of_unit = numpy.getattr(name)?.call1((object, unit))?;
                let number = of_unit.call_method1("astype", ("int64",))?;
                number.extract::<i64>().map(i64::cast_unsigned)
            }
            Self::Str | Self::Bytes | Self::Object => {
                Err(PyTypeError::new_err("not a type of 8 bytes"))
            }
        };
        match word {
            Ok(word) => Ok(word),
            Err(error) => Err(self.refused(object, error)),
        }
    }

    /// Keeps the class of the error, and says what was expected.
    #[cold]
    fn refused(&self, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let py = object.py();
        if error.is_instance_of::<PyTypeError>(py) {
            let found = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            return PyTypeError::new_err(format!("expected {}, not {found}", self.name()));
        }
        if error.is_instance_of::<PyOverflowError>(py) {
            return self.exceeded(object);
        }
        error
    }

    fn exceeded(&self, object: &Bound<'_, PyAny>) -> PyErr {
        PyOverflowError::new_err(format!("{object} does not fit {}", self.name()))
    }

    /// Makes a word back into a Python object.
    pub(crate) fn object_of(&self, py: Python<'_>, word: u64) -> PyResult<Py<PyAny>> {
        let object = match self {
            Self::Unsigned(_) | Self::Signed(_) => return self.found(py, word).into_result(py),
            Self::Float(32) => f32::from_bits(word as u32).into_pyobject(py)?.into_any(),
            Self::Float(_) => f64::from_bits(word).into_pyobject(py)?.into_any(),
            Self::Bool => (word != 0).into_pyobject(py)?.to_owned().into_any(),
            Self::Time { is_span, unit } => {
                let name = if *is_span { "timedelta64" } else { "datetime64" };
                py.import("numpy")?.getattr(name)?.call1((word.cast_signed(), unit))?
            }
            Self::Str | Self::Bytes | Self::Object => {
                return Err(PyTypeError::new_err("not a type of 8 bytes"));
            }
        };
        Ok(object.unbind())
    }

    /// As [`object_of`](Self::object_of), for a value that was looked up.
    pub(crate) fn found(&self, py: Python<'_>, word: u64) -> Found {
        match self {
            Self::Unsigned(bits) => {
                let number = word & ones(*bits);
                // SAFETY: the thread is attached.
                Found(unsafe { ffi::PyLong_FromUnsignedLongLong(number) })
            }
            Self::Signed(bits) => {
                let shift = 64 - bits;
                // SAFETY: the thread is attached.
                Found(unsafe { ffi::PyLong_FromLongLong((word << shift).cast_signed() >> shift) })
            }
            _ => Found::of(py, self.object_of(py, word)),
        }
    }

    /// Calls `f` with the bytes of a Python object, which are copied only if they must be.
    pub(crate) fn with_bytes<R>(
        &self,
        object: &Bound<'_, PyAny>,
        is_key: bool,
        f: impl FnOnce(&[u8]) -> R,
    ) -> PyResult<R> {
        let expected = || {
            let found = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!("expected {}, not {found}", self.name()))
        };
        match self {
            Self::Str => match utf8(object) {
                Ok(bytes) => Ok(f(bytes)),
                Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => Err(expected()),
                Err(error) => Err(error),
            },
            Self::Bytes => match object.cast::<PyBytes>() {
                Ok(bytes) => Ok(f(bytes.as_bytes())),
                Err(_) => {
                    let bytes = object.cast::<PyByteArray>().map_err(|_| expected())?;
                    Ok(f(&bytes.to_vec()))
                }
            },
            _ => Ok(f(&self.to_word(object, is_key)?.to_le_bytes())),
        }
    }

    /// Makes bytes back into a Python object.
    pub(crate) fn object_of_bytes(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
        self.found_bytes(py, bytes).into_result(py)
    }

    /// As [`object_of_bytes`](Self::object_of_bytes), for a value that was looked up.
    pub(crate) fn found_bytes(&self, py: Python<'_>, bytes: &[u8]) -> Found {
        let (data, len) = (bytes.as_ptr().cast(), bytes.len().cast_signed());
        match self {
            // SAFETY: the thread is attached, and the bytes are there. Python checks that they are text.
            Self::Str => Found(unsafe { ffi::PyUnicode_FromStringAndSize(data, len) }),
            // SAFETY: as above; Python copies the bytes.
            Self::Bytes => Found(unsafe { ffi::PyBytes_FromStringAndSize(data, len) }),
            _ => match bytes.try_into() {
                Ok(word) => self.found(py, u64::from_le_bytes(word)),
                Err(_) => {
                    let error = PyValueError::new_err(format!(
                        "the file has an item of {} bytes, and {} has 8",
                        bytes.len(),
                        self.name()
                    ));
                    Found::of(py, Err(error))
                }
            },
        }
    }
}

/// A new reference, or null if Python's exception is set. A `PyResult` has 64 bytes: to copy one that was just stored in
/// parts stalls the processor for a tenth of a lookup.
#[must_use]
pub(crate) struct Found(pub(crate) *mut ffi::PyObject);

impl Found {
    pub(crate) fn of(py: Python<'_>, result: PyResult<Py<PyAny>>) -> Self {
        Self(match result {
            Ok(object) => object.into_ptr(),
            Err(error) => {
                error.restore(py);
                core::ptr::null_mut()
            }
        })
    }

    pub(crate) fn into_result(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // SAFETY: it is a new reference, or null and the exception is set.
        unsafe { Bound::from_owned_ptr_or_err(py, self.0).map(Bound::unbind) }
    }
}

// Conversions of every single operation, by Python's own functions: those of the bindings are not inlined.

fn signed(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    // SAFETY: the object lives, and the thread is attached.
    let number = unsafe { ffi::PyLong_AsLongLong(object.as_ptr()) };
    match number {
        -1 => PyErr::take(object.py()).map_or(Ok(number), Err),
        _ => Ok(number),
    }
}

fn unsigned(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    // Python's function takes nothing else than an `int`, unlike that for signed numbers.
    if !object.is_instance_of::<PyInt>() {
        return object.extract();
    }
    // SAFETY: as in `signed`.
    let number = unsafe { ffi::PyLong_AsUnsignedLongLong(object.as_ptr()) };
    match number {
        u64::MAX => PyErr::take(object.py()).map_or(Ok(number), Err),
        _ => Ok(number),
    }
}

/// The bytes of a string, which Python keeps with it.
fn utf8<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    let mut len = 0;
    // SAFETY: as in `signed`.
    let bytes = unsafe { ffi::PyUnicode_AsUTF8AndSize(object.as_ptr(), &raw mut len) };
    if bytes.is_null() {
        return Err(PyErr::fetch(object.py()));
    }
    // SAFETY: the string has so many bytes, and keeps them unchanged as long as it lives.
    Ok(unsafe { core::slice::from_raw_parts(bytes.cast(), len.cast_unsigned()) })
}

fn ones(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// The word of a float that is a key: both zeros have one, and all NaNs have one.
pub(crate) fn float_key(word: u64, bits: u32) -> u64 {
    match bits {
        32 => {
            let number = f32::from_bits(word as u32);
            let key = if number.is_nan() { f32::NAN } else { number + 0.0 };
            key.to_bits().into()
        }
        _ => {
            let number = f64::from_bits(word);
            let key = if number.is_nan() { f64::NAN } else { number + 0.0 };
            key.to_bits()
        }
    }
}
