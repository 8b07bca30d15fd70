"""What analysts do with hash tables: codes, counts, joins, membership, deduplication."""

import numpy as np

from . import _native
from ._columns import column, kind_of, words_of
from ._maps import Set


def _numbers(data, what, kind=None):
    array = np.asarray(data)
    kind = kind or kind_of(array.dtype)
    if kind in ("str", "bytes", "object"):
        raise TypeError(f"{what} must be numbers, not {array.dtype}")
    return column(array, kind, what), kind


def _two(left, right, names):
    """Return both as arrays of one type."""
    left, right = np.asarray(left), np.asarray(right)
    # An empty list is an array of floats for NumPy; it has keys of any type.
    kinds = [kind_of(array.dtype) for array in (left, right) if array.size]
    dtypes = [array.dtype for array in (left, right) if array.size]
    if not kinds:
        return left.astype(np.int64), right.astype(np.int64), "i64"
    if len(set(kinds)) == 2:
        common = np.result_type(*dtypes)
        if common.kind != dtypes[0].kind and "f" in common.kind and dtypes[0].kind + dtypes[1].kind in ("iu", "ui"):
            raise TypeError(
                f"{names[0]} have the dtype {dtypes[0]} and {names[1]} {dtypes[1]}: no type has "
                "the numbers of both; convert one of them"
            )
        left, right = left.astype(common), right.astype(common)
    kind = kind_of((left if left.size else right).dtype)
    dtype = (left if left.size else right).dtype
    one = column(left if left.size else left.astype(dtype), kind, names[0])
    return one, column(right if right.size else right.astype(dtype), kind, names[1]), kind


def factorize(values):
    """Return a code for each value, and the distinct values in the order of their appearance.

    >>> codes, distinct = factorize([30, 10, 30])
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], [30, 10])
    """
    array, kind = _numbers(values, "values")
    codes, first = _native.factorize(words_of(array), kind)
    return codes, array[first]


def unique(values):
    """Return the distinct values in the order of their appearance.

    >>> unique([3, 1, 3]).tolist()
    [3, 1]
    """
    return factorize(values)[1]


def value_counts(values):
    """Return the distinct values and how often each comes, the most frequent first.

    >>> [array.tolist() for array in value_counts([3, 1, 3])]
    [[3, 1], [2, 1]]
    """
    codes, distinct = factorize(values)
    counts = np.bincount(codes, minlength=len(distinct))
    order = np.argsort(-counts, kind="stable")
    return distinct[order], counts[order]


def isin(values, among, *, threads=1):
    """Return an array that tells which values are among others.

    >>> isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    values, among, kind = _two(values, among, ("values", "others"))
    keys = Set(kind, capacity=len(among))
    keys.add_many(among, threads=threads)
    return keys.contains_many(values, threads=threads)


def join(left, right, how="inner"):
    """Return positions on the left and on the right whose keys are equal.

    how: "inner", "left", "right" or "outer". A key without a partner has the position -1 on the
    other side. Pairs are in the order of the left side; of the right side for "right". What is only
    on the right comes last for "outer".

    >>> [side.tolist() for side in join([1, 2, 2], [2, 3])]
    [[1, 2], [0, 0]]
    >>> [side.tolist() for side in join([1, 2, 2], [2, 3], "outer")]
    [[0, 1, 2, -1], [-1, 0, 0, 1]]
    """
    if how not in ("inner", "left", "right", "outer"):
        raise ValueError(f"how must be inner, left, right or outer, not {how!r}")
    left, right, kind = _two(left, right, ("keys of the left side", "keys of the right side"))
    if how == "right":
        rights, lefts = _native.join(words_of(right), words_of(left), kind, True)
        return lefts, rights
    lefts, rights = _native.join(words_of(left), words_of(right), kind, how != "inner")
    if how == "outer":
        is_alone = np.ones(len(right), dtype=bool)
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
        if self._keys.key_type in ("str", "bytes", "object"):
            raise TypeError("keys of a Deduplicator are numbers")

    def add(self, keys):
        """Add a batch; return an array that tells which of its keys are new."""
        keys = column(keys, self._keys.key_type, "keys")
        _, first = _native.factorize(words_of(keys), self._keys.key_type)
        distinct = keys[first]
        new = first[~self._keys.contains_many(distinct)]
        self._keys.add_many(distinct)
        is_new = np.zeros(len(keys), dtype=bool)
        is_new[new] = True
        return is_new

    def __len__(self):
        return len(self._keys)
