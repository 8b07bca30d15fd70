"""What analysts do with hash tables: codes, counts, joins, membership, deduplication."""

import numpy as np

from . import _native
from ._columns import (
    arrow,
    column,
    column_and_mask,
    dtype_of,
    kind_of,
    numbers,
    string_kind,
    words_of,
)
from ._maps import Set
from ._native import Column


def _strings(data, what):
    """Return a column if the data consists of strings; otherwise None."""
    imported = arrow(data)
    if imported is not None:
        return imported if imported.type in ("str", "bytes") else None
    kind = string_kind(data)
    if kind is None:
        return None
    array = data if isinstance(data, (list, tuple)) else np.asarray(data)
    if np.ndim(array) != 1:
        raise ValueError(f"{what} must have one dimension, not {np.ndim(array)}")
    return Column._of_strings(array if isinstance(array, (list, tuple)) else array.tolist(), kind)


def _checked(array, mask, what):
    """Return an array of numbers, a mask of what is there, and the type."""
    try:
        kind = kind_of(array.dtype)
    except TypeError:
        kind = "object"
    if kind == "object":
        raise TypeError(f"{what} must be numbers or strings, not {array.dtype}")
    return column(array, kind, what), mask, kind


def _source(array, mask):
    return words_of(array), mask


def _keys(data, what):
    """Return what the native part takes, its type, and a function that picks items by positions."""
    texts = _strings(data, what)
    if texts is None:
        array, mask, kind = _checked(*numbers(data, what), what)
        return _source(array, mask), kind, array.__getitem__
    if isinstance(data, (list, tuple)):
        return texts, texts.type, lambda positions: [data[at] for at in positions.tolist()]
    return texts, texts.type, data.__getitem__ if isinstance(data, np.ndarray) else texts.take


def _two(left, right, names):
    """Return what the native part takes for both sides, and their type, which is one."""
    texts = [_strings(data, name) for data, name in zip((left, right), names)]
    if texts[0] is None and texts[1] is None:
        left, right, kind = _two_of_numbers(left, right, names)
        return _source(*left), _source(*right), kind
    kind = next(side.type for side in texts if side is not None)
    for at, data in enumerate((left, right)):
        if texts[at] is None and len(data) == 0:
            # An empty list has strings of any type.
            texts[at] = Column._of_strings([], kind)
        if texts[at] is None or texts[at].type != kind:
            other = "numbers" if texts[at] is None else texts[at].type
            raise TypeError(f"{names[1 - at]} are {kind}, and {names[at]} {other}")
    return *texts, kind


def _two_of_numbers(left, right, names):
    """Return both as arrays of one type, each with its mask."""
    (left, left_mask), (right, right_mask) = numbers(left, names[0]), numbers(right, names[1])
    # An empty list is an array of floats for NumPy; it has keys of any type.
    sides = [(array, name) for array, name in zip((left, right), names) if array.size]
    kinds = {_checked(array, None, name)[2] for array, name in sides}
    dtypes = [array.dtype for array, _ in sides]
    if not kinds:
        kinds, dtypes = {"i64"}, [np.dtype(np.int64)]
    common = dtypes[0]
    if len(kinds) == 2:
        common = np.result_type(*dtypes)
        if "f" in common.kind and {dtype.kind for dtype in dtypes} == {"i", "u"}:
            raise TypeError(
                f"{names[0]} have the dtype {dtypes[0]} and {names[1]} {dtypes[1]}: no type has "
                "the numbers of both; convert one of them"
            )
    kind = kind_of(common)
    left, right = (column(array.astype(common), kind, name) for array, name in zip((left, right), names))
    return (left, left_mask), (right, right_mask), kind


def factorize(values):
    """Return a code for each value, and the distinct values in the order of their appearance.

    Nulls have the code -1. Distinct strings of a list or of a NumPy array are such a thing again, and
    those of another column a `Column`.

    >>> codes, distinct = factorize([30, 10, 30])
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], [30, 10])
    >>> factorize(["b", "a", "b"])
    (array([0, 1, 0]), ['b', 'a'])
    """
    keys, kind, pick = _keys(values, "values")
    codes, first = _native.factorize(keys, kind)
    return codes, pick(first)


def unique(values):
    """Return the distinct values in the order of their appearance, without nulls.

    >>> unique([3, 1, 3]).tolist()
    [3, 1]
    """
    return factorize(values)[1]


def value_counts(values):
    """Return the distinct values and how often each comes, the most frequent first; no nulls.

    >>> [array.tolist() for array in value_counts([3, 1, 3])]
    [[3, 1], [2, 1]]
    """
    keys, kind, pick = _keys(values, "values")
    codes, first = _native.factorize(keys, kind)
    counts = np.bincount(codes[codes >= 0], minlength=len(first))
    order = np.argsort(-counts, kind="stable")
    return pick(first[order]), counts[order]


def isin(values, among, *, threads=1):
    """Return an array that tells which values are among others. Nulls are not.

    >>> isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    values, among, kind = _two(values, among, ("values", "others"))
    if isinstance(values, Column):
        found = np.zeros(len(values), dtype=bool)
        _native.isin(values, among, kind, words_of(found), threads)
        return found
    (words, there), (others, known) = values, among
    keys, dtype = Set(kind, capacity=len(others)), dtype_of(kind)
    others = others if known is None else others[known]
    keys.add_many(others.view(dtype), threads=threads)
    found = keys.contains_many(words.view(dtype), threads=threads)
    return found if there is None else found & there


def join(left, right, how="inner"):
    """Return positions on the left and on the right whose keys are equal.

    how: "inner", "left", "right" or "outer". A key without a partner has the position -1 on the
    other side. Pairs are in the order of the left side; of the right side for "right". What is only
    on the right comes last for "outer". A null has no partner.

    >>> [side.tolist() for side in join([1, 2, 2], [2, 3])]
    [[1, 2], [0, 0]]
    >>> [side.tolist() for side in join([1, 2, 2], [2, 3], "outer")]
    [[0, 1, 2, -1], [-1, 0, 0, 1]]
    """
    if how not in ("inner", "left", "right", "outer"):
        raise ValueError(f"how must be inner, left, right or outer, not {how!r}")
    left, right, kind = _two(left, right, ("keys of the left side", "keys of the right side"))
    if how == "right":
        rights, lefts = _native.join(right, left, kind, True)
        return lefts, rights
    lefts, rights = _native.join(left, right, kind, how != "inner")
    if how == "outer":
        is_alone = np.ones(len(right if isinstance(right, Column) else right[0]), dtype=bool)
        is_alone[rights[rights >= 0]] = False
        alone = np.flatnonzero(is_alone)
        lefts = np.concatenate([lefts, np.full(len(alone), -1)])
        rights = np.concatenate([rights, alone])
    return lefts, rights


class Deduplicator:
    """Tells which keys were not there before, over batches that do not fit into memory at once.

    >>> seen = Deduplicator("u64")
    >>> seen.add([1, 2, 1]).tolist(), seen.add([2, 3]).tolist(), len(seen)
    ([True, True, False], [False, True], 3)
    """

    def __init__(self, key="u64", *, table="dlht", capacity=0):
        self._keys = Set(key, table=table, capacity=capacity)
        if self._keys.key_type == "object":
            raise TypeError("keys of a Deduplicator are numbers or strings")

    def add(self, keys):
        """Add a batch; return an array that tells which of its keys are new. Nulls are not."""
        kind = self._keys.key_type
        if kind in ("str", "bytes"):
            keys = _strings(keys, "keys") or Column._of_strings(keys, kind)
            if keys.type != kind:
                raise TypeError(f"keys must be {kind}, not {keys.type}")
            source, pick = keys, keys.take
        else:
            keys, mask = column_and_mask(keys, kind, "keys")
            source, pick = _source(keys, mask), keys.__getitem__
        _, first = _native.factorize(source, kind)
        distinct = pick(first)
        new = first[~self._keys.contains_many(distinct)]
        self._keys.add_many(distinct)
        is_new = np.zeros(len(keys), dtype=bool)
        is_new[new] = True
        return is_new

    def __len__(self):
        return len(self._keys)
