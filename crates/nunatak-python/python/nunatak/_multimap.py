"""Any number of values for a key."""

import os

import numpy as np

from . import _native
from ._columns import as_column, column, column_and_mask, kind_of, strings, typed, words_of
from ._native import Column


class MultiMap(_native.MultiMap):
    """A concurrent map in which a key has any number of values: an index, or a graph.

    MultiMap(key, value, items=())

    Keys are numbers, "str" or "bytes"; values are numbers. In files keys are numbers.

    >>> graph = MultiMap("u32", "u32")
    >>> graph.insert_many([1, 1, 2], [2, 3, 3])
    >>> sorted(graph.get_all(1).tolist())
    [2, 3]
    >>> offsets, targets = graph.get_all_many([2, 9, 1])
    >>> offsets.tolist(), len(targets)
    ([0, 1, 1, 3], 3)
    >>> lines = MultiMap("str", "u32", [("rock", 1), ("ice", 1), ("rock", 2)])
    >>> lines.count_many(["rock", "sea"]).tolist()
    [2, 0]
    """

    def __new__(cls, key="u64", value="u64", items=()):
        return super().__new__(cls, kind_of(key), kind_of(value))

    def __init__(self, key="u64", value="u64", items=()):
        for one, other in items:
            self.insert(one, other)

    def __repr__(self):
        types = f"{self.key_type!r}, {self.value_type!r}"
        if self.closed:
            return f"<closed MultiMap({types})>"
        if self.path is not None:
            return f"<MultiMap({types}) in {os.fspath(self.path)!r} with {len(self)} values>"
        return f"MultiMap({types}, {{...{len(self)} values...}})"

    def copy(self):
        """Return a multimap in RAM with the entries of one moment.

        >>> m = MultiMap("u32", "u32", [(1, 2)]); n = m.copy(); n.insert(1, 3); m.count(1), n.count(1)
        (1, 2)
        """
        # A subclass that knows how to open a file is of no use without one.
        cls = type(self) if self.path is None else MultiMap
        new = _filled(cls, self.key_type, self.value_type, *self.arrays(arrow=self._has_strings))
        if self.path is None:
            new.__dict__.update(self.__dict__)
        return new

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        new = self.copy()
        memo[id(self)] = new
        for name, value in new.__dict__.items():
            new.__dict__[name] = deepcopy(value, memo)
        return new

    def __reduce__(self):
        if self.path is not None:
            raise TypeError("a map in a file is not pickled: pass its path, and open it there")
        attributes = getattr(self, "__dict__", None) or None
        return _filled, (type(self), self.key_type, self.value_type, *self.arrays()), attributes

    @property
    def _has_strings(self):
        return self.key_type in ("str", "bytes")

    def _returned(self, keys, arrow):
        """Return keys of the native part as an array, or as a list of strings; with `arrow` as a column."""
        if isinstance(keys, Column):
            return keys if arrow else keys.tolist()
        return self._typed(keys, self.key_type, arrow)

    def _typed(self, words, kind, arrow):
        array = typed(words, kind)
        return as_column(array, kind) if arrow else array

    def _insert(self, keys, values, threads, unique):
        values = words_of(column(values, self.value_type, "values"))
        if self._has_strings:
            return self._insert_strings(strings(keys), values, threads, unique)
        keys = words_of(column(keys, self.key_type, "keys"))
        return self._insert_words(keys, values, threads, unique)

    def get_all(self, key):
        """Return an array of all values of the key, in no order."""
        return typed(self._get_all(key), self.value_type)

    def insert_many(self, keys, values, *, threads=1):
        """Add values[i] to those of keys[i]."""
        self._insert(keys, values, threads, False)

    def insert_unique_many(self, keys, values, *, threads=1):
        """Add each values[i] that keys[i] does not have; return how many were added.

        >>> graph = MultiMap("u32", "u32")
        >>> graph.insert_unique_many([1, 1, 2], [2, 2, 3]), graph.insert_unique_many([1, 2], [2, 4])
        (2, 1)
        """
        return self._insert(keys, values, threads, True)

    def get_all_many(self, keys):
        """Return offsets and values: those of keys[i] are values[offsets[i]:offsets[i + 1]].

        Null keys have no values.
        """
        if self._has_strings:
            offsets, words = self._get_all_strings(strings(keys))
            return offsets, typed(words, self.value_type)
        keys, there = column_and_mask(keys, self.key_type, "keys")
        offsets, words = self._get_all_words(words_of(keys if there is None else keys[there]))
        if there is not None:
            counts = np.zeros(len(keys) + 1, dtype=np.int64)
            counts[1:][there] = np.diff(offsets)
            offsets = np.cumsum(counts)
        return offsets, typed(words, self.value_type)

    def count_many(self, keys):
        """Return how many values each key has."""
        return self._counts(keys, False)

    def remove_all_many(self, keys):
        """Remove all values of many keys; return how many each had."""
        return self._counts(keys, True)

    def _counts(self, keys, removes):
        if self._has_strings:
            return self._count_strings(strings(keys), removes)
        keys, there = column_and_mask(keys, self.key_type, "keys")
        counts = np.zeros(len(keys), dtype=np.uint64)
        if there is None:
            self._count_words(words_of(keys), counts, removes)
        else:
            some = np.zeros(int(there.sum()), dtype=np.uint64)
            self._count_words(words_of(keys[there]), some, removes)
            counts[there] = some
        return counts.astype(np.int64)

    def distinct_keys(self, *, return_counts=False, arrow=False):
        """Return an array of the keys, each once, in no order; with return_counts also how many values each has.

        Strings come as a list, and with `arrow` keys come as a `Column`. A key that other threads add or
        remove meanwhile may be left out.

        >>> graph = MultiMap("u32", "u32", [(1, 2), (1, 3)])
        >>> graph.distinct_keys().tolist()
        [1]
        >>> keys, counts = graph.distinct_keys(return_counts=True)
        >>> counts.tolist()
        [2]
        """
        keys, counts = self._distinct_keys()
        keys = self._returned(keys, arrow)
        return (keys, counts) if return_counts else keys

    def groups(self, *, arrow=False):
        """Return keys, each once, offsets and values: those of keys[i] are values[offsets[i]:offsets[i + 1]].

        The values of a key are those of one moment. Keys that are strings come as a list, and with `arrow`
        keys and values are a `Column` each. A key that other threads add or remove meanwhile may be left
        out.

        >>> graph = MultiMap("u32", "u32", [(1, 2), (1, 3)])
        >>> keys, offsets, values = graph.groups()
        >>> keys.tolist(), offsets.tolist(), sorted(values.tolist())
        ([1], [0, 2], [2, 3])
        """
        keys, offsets, values = self._groups()
        return self._returned(keys, arrow), offsets, self._typed(values, self.value_type, arrow)

    def arrays(self, *, arrow=False):
        """Return keys and values of one moment: a key as often as it has values.

        Keys that are strings come as a list, and with `arrow` keys and values are a `Column` each.

        >>> MultiMap("str", "u32", [("rock", 1)]).arrays()
        (['rock'], array([1], dtype=uint32))
        """
        keys, values = self._entries()
        return self._returned(keys, arrow), self._typed(values, self.value_type, arrow)

    def __iter__(self):
        keys, values = self.arrays()
        keys = keys if isinstance(keys, list) else keys.tolist()
        return iter(list(zip(keys, values.tolist())))


def _filled(cls, key, value, keys, values):
    # Not by `cls(…)`: a subclass may have a constructor of its own.
    new = _native.MultiMap.__new__(cls, key, value)
    if len(values):
        new.insert_many(keys, values)
    return new
