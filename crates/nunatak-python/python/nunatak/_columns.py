"""What callers pass, as NumPy arrays that the native part takes."""

import re

import numpy as np

from ._native import Column

_NAMES = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
    "bool": np.bool_,
}
_BY_TYPE = {np.dtype(dtype): name for name, dtype in _NAMES.items()}
_TEXT = (str, bytes, bytearray)
# What NumPy would take as numbers though it is none: it parses text, cuts floats off, and makes None a NaN.
_REFUSED = {
    "i": (float, np.floating, *_TEXT),
    "u": (float, np.floating, *_TEXT),
    "f": (type(None), *_TEXT),
}
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def kind_of(kind):
    """Return the name of a type: of "u64", np.uint64, int, float, str, bytes or object.

    >>> kind_of(np.uint32), kind_of(int), kind_of(str), kind_of("datetime64[ns]")
    ('u32', 'i64', 'str', 'datetime64[ns]')
    """
    if isinstance(kind, str):
        if kind in _NAMES or kind in ("str", "bytes", "object"):
            return kind
        if re.fullmatch(r"(datetime|timedelta)64\[\d*[A-Za-z]+\]", kind):
            np.dtype(kind)
            return kind
    if kind is str or kind is bytes or kind is object:
        return kind.__name__
    if kind is int:
        return "i64"
    try:
        # For NumPy `None` is a float.
        dtype = np.dtype("V" if kind is None else kind)
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(f"a map has no keys or values of type {kind!r}") from None
    if dtype in _BY_TYPE:
        return _BY_TYPE[dtype]
    if dtype.kind in "mM" and "[" in str(dtype):
        return dtype.newbyteorder("=").name
    raise TypeError(f"a map has no keys or values of type {kind!r}")


def dtype_of(kind):
    """Return the dtype of arrays of a type of numbers."""
    return np.dtype(_NAMES.get(kind, kind))


def words_of(array):
    """Return the same memory as unsigned integers, which is what the native part takes."""
    return array.view(_WORDS[array.dtype.itemsize])


def typed(words, kind):
    """Return words as an array of the type."""
    dtype = dtype_of(kind)
    return words.astype(np.dtype(f"u{dtype.itemsize}"), copy=False).view(dtype)


def as_column(values, kind, mask=None):
    """Return a column of an array of numbers, or the column that it is already."""
    if isinstance(values, Column):
        return values
    return Column._of_words(words_of(values), mask, kind)


def arrow(data):
    """Return the data as a Column if it is one of Arrow, and not NumPy's; otherwise None."""
    if isinstance(data, Column):
        return data
    # What pandas has in NumPy's arrays stays there: for Arrow its NaN would be null.
    if isinstance(getattr(data, "dtype", None), np.dtype):
        return None
    if not hasattr(data, "__arrow_c_array__") and not hasattr(data, "__arrow_c_stream__"):
        return None
    try:
        return Column(data)
    except ImportError:
        # pandas needs pyarrow for it.
        return None


def numbers(data, what):
    """Return an array of what is given, and a mask of what is there, or None if all is."""
    imported = arrow(data)
    if imported is None:
        return np.asarray(data), None
    if imported.type in ("str", "bytes"):
        raise TypeError(f"{what} must be numbers, not a column of {imported.type}")
    dtype, parts = dtype_of(imported.type), imported._numbers()
    arrays = [_of_dtype(array, dtype) for array, _ in parts] or [np.zeros(0, dtype)]
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    if imported.null_count == 0:
        return array, None
    masks = [np.ones(len(array), bool) if mask is None else mask for array, mask in parts]
    mask = np.concatenate(masks)
    # Nothing is known about what stands in the place of a null.
    return np.where(mask, array, np.zeros(1, dtype)), mask


def _of_dtype(words, dtype):
    return words.astype(bool) if dtype == np.bool_ else words.view(dtype)


def column(data, kind, what):
    """Return an array of the type, with one dimension and contiguous; copy only if need be.

    A conversion that could change a number is refused, and so are nulls.
    """
    array, mask = column_and_mask(data, kind, what)
    if mask is not None:
        raise ValueError(f"{what} have nulls, which a map can't hold")
    return array


def column_and_mask(data, kind, what):
    """Return an array as `column` does, and a mask of what is there, or None if all is."""
    dtype, mask = dtype_of(kind), None
    if isinstance(data, (list, tuple, range)):
        # NumPy itself refuses numbers that the type can't hold.
        if dtype.kind == "b":
            # For NumPy whatever is not empty is true.
            wrong = (item for item in data if not isinstance(item, (bool, np.bool_)))
        else:
            refused = _REFUSED.get(dtype.kind, ())
            wrong = (item for item in data if isinstance(item, refused))
        for item in wrong:
            raise TypeError(f"{what} of a map of {kind} can't be of type {type(item).__name__}")
        array = np.array(data, dtype=dtype)
    else:
        array, mask = numbers(data, what)
        if array.dtype != dtype:
            if not _fits(array, dtype):
                raise TypeError(
                    f"{what} have the dtype {array.dtype}, and the map has {kind}: "
                    f"convert them with .astype({dtype.name!r})"
                )
            array = array.astype(dtype)
    if array.ndim != 1:
        raise ValueError(f"{what} must have one dimension, not {array.ndim}")
    return np.ascontiguousarray(array), mask


def _fits(array, dtype):
    if np.can_cast(array.dtype, dtype, "safe"):
        return True
    # Integers of another width or sign: if their numbers fit.
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return False
    if array.size == 0:
        return True
    limits = np.iinfo(dtype)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def output(out, kind, length, what):
    """Return an array for results: the caller's, or a new one of zeros."""
    dtype = dtype_of(kind)
    if out is None:
        return np.zeros(length, dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{what} must be a NumPy array, not {type(out).__name__}")
    if out.dtype != dtype:
        raise TypeError(f"{what} has the dtype {out.dtype}, and must have {dtype}")
    if out.shape != (length,):
        raise ValueError(f"{what} has the shape {out.shape}, and must have ({length},)")
    if not out.flags.c_contiguous:
        raise ValueError(f"{what} must be contiguous")
    if not out.flags.writeable:
        raise ValueError(f"{what} is read-only")
    return out


def strings(data):
    """Return an iterable of strings: Arrow's as a column, other arrays as lists."""
    if isinstance(data, (str, bytes)):
        raise TypeError("expected many strings, not one")
    imported = arrow(data)
    if imported is not None:
        return imported
    for name in ("to_pylist", "to_list", "tolist"):
        convert = getattr(data, name, None)
        if convert is not None:
            return convert()
    return data


def string_kind(data):
    """Return "str" or "bytes" if that is what the data consists of; otherwise None."""
    if isinstance(data, (list, tuple)):
        items = data
    else:
        array = np.asarray(data)
        if array.dtype.kind != "O":
            return {"U": "str", "T": "str", "S": "bytes"}.get(array.dtype.kind)
        items = array.flat
    first = next((item for item in items if item is not None), None)
    return {str: "str", bytes: "bytes"}.get(type(first))
