"""The maps as Python knows them: the native classes as mappings."""

import os
from collections.abc import (
    ItemsView,
    KeysView,
    Mapping,
    MutableMapping,
    MutableSet,
    ValuesView,
)

import numpy as np

from . import _native
from ._columns import (
    as_column,
    column,
    column_and_mask,
    dtype_of,
    kind_of,
    output,
    strings,
    typed,
    words_of,
)
from ._multimap import MultiMap
from ._native import Column

_ABSENT = object()
_REPR_ITEMS = 50


class _Keys(KeysView):
    def __iter__(self):
        return self._mapping._iter("keys")


class _Values(ValuesView):
    def __iter__(self):
        return self._mapping._iter("values")


class _Items(ItemsView):
    def __iter__(self):
        return self._mapping._iter("items")


def _column(items, at, kind):
    """Return one side of pairs, as an array if it has numbers."""
    side = [item[at] for item in items]
    if kind in ("str", "bytes", "object"):
        return side
    return np.array(side, dtype=dtype_of(kind))


def _look_up(native, keys, there, results, threads):
    """Fill the results by a native function; null keys are absent, and have False in the last one."""
    if there is None:
        native(keys, *map(words_of, results), threads)
        return
    # A function fills some of the places only, so it gets what they have.
    some = [result[there] for result in results]
    native(keys[there], *map(words_of, some), threads)
    results[-1][:] = False
    for result, filled in zip(results, some):
        result[there] = filled


class Map(_native.Map, MutableMapping):
    """A concurrent map with keys and values of one type each.

    Map(key, value, items=None, *, table="dlht", capacity=0)

    Types are "u8" to "u64", "i8" to "i64", "f32", "f64", "bool", "datetime64[ns]" and the like,
    "str", "bytes" and "object"; NumPy's dtypes and `int`, `float`, `str`, `bytes`, `object` do as
    well. Without types a map takes any objects, as a `dict` does.

    All methods may be called by any number of threads. An operation on one key happens at one
    moment. Iteration goes over the entries of the moment at which it began, in no order that means
    anything, and the map may change meanwhile. NaN is one key, and so are both zeros.

    >>> m = Map("str", "f64", {"pi": 3.14})
    >>> m["e"] = 2.72
    >>> sorted(m.items())
    [('e', 2.72), ('pi', 3.14)]
    >>> m
    Map('str', 'f64', {...2 entries...})
    """

    def __new__(cls, key="object", value="object", items=None, *, table="dlht", capacity=0):
        if capacity < 0:
            raise ValueError("the capacity must not be negative")
        return super().__new__(cls, kind_of(key), kind_of(value), table, capacity)

    def __init__(self, key="object", value="object", items=None, *, table="dlht", capacity=0):
        if items is not None:
            self.update(items)

    def __repr__(self):
        name = type(self).__name__
        types = f"{self.key_type!r}, {self.value_type!r}"
        if self.closed:
            return f"<closed {name}({types})>"
        if self.path is not None:
            return f"<{name}({types}) in {os.fspath(self.path)!r} with {len(self)} entries>"
        if len(self) == 0:
            return f"{name}({types})"
        return f"{name}({types}, {{...{len(self)} entries...}})"

    # Views and iteration.

    def keys(self):
        """Return a view of the keys."""
        return _Keys(self)

    def values(self):
        """Return a view of the values."""
        return _Values(self)

    def items(self):
        """Return a view of the entries as pairs."""
        return _Items(self)

    def arrays(self, *, arrow=False):
        """Return the keys and the values of one moment as two arrays, or lists of strings.

        With `arrow` both are a `Column` for other libraries.

        >>> keys, values = Map("u32", "f64", {3: 0.5}).arrays()
        >>> keys, values
        (array([3], dtype=uint32), array([0.5]))
        >>> Map("str", "f64", {"a": 0.5}).arrays(arrow=True)[0]
        Column("str", 1 items, 0 nulls)
        """
        if self._layout == "words":
            keys, values = self._words()
            keys, values = typed(keys, self.key_type), typed(values, self.value_type)
            if not arrow:
                return keys, values
            return as_column(keys, self.key_type), as_column(values, self.value_type)
        if arrow:
            if self._layout == "objects":
                raise TypeError("Arrow has no columns of objects")
            sides = zip(self._string_columns(), (self.key_type, self.value_type))
            keys, values = (
                as_column(side if isinstance(side, Column) else typed(side, kind), kind)
                for side, kind in sides
            )
            return keys, values
        items = list(self._iter("items"))
        return _column(items, 0, self.key_type), _column(items, 1, self.value_type)

    # What `dict` has.

    def pop(self, key, default=_ABSENT, /):
        """Remove the key and return its value, or the default; without one raise KeyError.

        >>> m = Map("u64", "u64", {1: 10})
        >>> m.pop(1), m.pop(1, None)
        (10, None)
        """
        found = self._pop(key)
        if found is not None:
            return found[0]
        if default is _ABSENT:
            raise KeyError(key)
        return default

    def update(self, other=(), /, **others):
        """Store all entries of a mapping, or of pairs.

        >>> m = Map("str", "u64"); m.update({"a": 1}, b=2); len(m)
        2
        """
        if isinstance(other, Mapping):
            for key, value in other.items():
                self[key] = value
        elif hasattr(other, "keys"):
            for key in other.keys():
                self[key] = other[key]
        else:
            for key, value in other:
                self[key] = value
        for key, value in others.items():
            self[key] = value

    @classmethod
    def fromkeys(cls, keys, value=None):
        """Return a map of objects in which all keys have one value."""
        self = cls()
        for key in keys:
            self[key] = value
        return self

    def __or__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        new = self.copy()
        new.update(other)
        return new

    def __ror__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        new = self._empty()
        new.update(other)
        new.update(self)
        return new

    def __ior__(self, other):
        self.update(other)
        return self

    def _empty(self):
        if self.path is not None:
            return Map(self.key_type, self.value_type)
        new = _empty_map(type(self), self.key_type, self.value_type, self.table)
        new.__dict__.update(self.__dict__)
        return new

    def copy(self):
        """Return a map in RAM with the entries of one moment.

        >>> m = Map("u64", "u64", {1: 10}); n = m.copy(); n[1] = 11; m[1]
        10
        """
        new = self._empty()
        if self._layout == "blobs":
            new._insert_strings(*self._string_columns(), 1)
        else:
            new.insert_many(*self.arrays())
        return new

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        new = self._empty()
        memo[id(self)] = new
        keys, values = self.arrays()
        new.insert_many(deepcopy(keys, memo), deepcopy(values, memo))
        return new

    def __reduce__(self):
        if self.path is not None:
            raise TypeError("a map in a file is not pickled: pass its path, and open it there")
        attributes = getattr(self, "__dict__", None) or None
        kinds = (type(self), self.key_type, self.value_type, self.table)
        if self._layout == "objects":
            # Pairs come after the map itself, which may be among them.
            return _empty_map, kinds, attributes, None, iter(list(self.items()))
        return _filled_map, (*kinds, *self.arrays()), attributes

    __hash__ = None

    # Batches.

    def _is_strings(self):
        return self._layout == "blobs"

    def _keys(self, keys):
        if self.key_type in ("str", "bytes"):
            return strings(keys)
        return words_of(column(keys, self.key_type, "keys"))

    def _words_and_mask(self, keys):
        """Return what the native part looks up, and a mask of the keys that are no nulls."""
        if self.key_type in ("str", "bytes"):
            return strings(keys), None
        keys, there = column_and_mask(keys, self.key_type, "keys")
        return words_of(keys), there

    def get_many(self, keys, default=_ABSENT, *, out=None, mask=None, arrow=False, threads=1):
        """Look up many keys; return the values, and a mask of the keys that are present.

        With a default, absent keys have it, and only the values are returned. Values of absent keys
        are zero, or what `out` had there. Values that are strings come as a list, with None for
        absent keys. With `arrow` a `Column` is returned, in which the values of absent keys are null.
        Numbers go in and out without a copy, other threads run meanwhile, and `threads` of the
        library's own share the work. Null keys are absent.

        >>> m = Map("u64", "f64", {1: 0.5})
        >>> m.get_many([1, 2])
        (array([0.5, 0. ]), array([ True, False]))
        >>> m.get_many([1, 2], np.nan)
        array([0.5, nan])
        """
        if arrow and not (default is _ABSENT and out is None and mask is None):
            raise TypeError("in a column absent keys have nulls: it takes no default, out or mask")
        if self._layout == "words":
            keys, there = self._words_and_mask(keys)
            values = output(out, self.value_type, len(keys), "out")
            found = output(mask, "bool", len(keys), "mask")
            _look_up(self._get_words, keys, there, [values, found], threads)
        else:
            if out is not None or mask is not None:
                raise TypeError("out and mask are for maps of numbers")
            values, found = self._get_others(keys, threads, arrow)
        if arrow:
            return as_column(values, self.value_type, found)
        if default is _ABSENT:
            return values, found
        if isinstance(values, list):
            return [value if is_there else default for value, is_there in zip(values, found)]
        if found.all():
            return values
        if default is None:
            return [value if is_there else None for value, is_there in zip(values.tolist(), found)]
        values[~found] = default
        return values

    def _get_others(self, keys, threads, arrow=False):
        if self._is_strings():
            keys, there = self._words_and_mask(keys)
            values, found = self._get_strings(keys, threads, arrow, there)
            is_words = isinstance(values, np.ndarray)
            return typed(values, self.value_type) if is_words else values, found
        if arrow:
            raise TypeError("Arrow has no columns of objects")
        values = [self.get(key, _ABSENT) for key in strings(keys)]
        found = np.array([value is not _ABSENT for value in values], dtype=bool)
        return [None if value is _ABSENT else value for value in values], found

    def contains_many(self, keys, *, threads=1):
        """Return an array that tells which keys are present.

        >>> Map("u64", "u64", {1: 10}).contains_many([1, 2])
        array([ True, False])
        """
        if self._layout != "words":
            return self._get_others(keys, threads, self._is_strings())[1]
        keys, there = self._words_and_mask(keys)
        found = np.zeros(len(keys), dtype=bool)
        _look_up(self._contains_words, keys, there, [found], threads)
        return found

    def insert_many(self, keys, values, *, threads=1):
        """Store many entries, in order; return how many keys were new.

        With several threads the order of equal keys is not kept.

        >>> Map("str", "u64").insert_many(["a", "b"], [1, 2])
        2
        """
        if self._layout == "words":
            values = column(values, self.value_type, "values")
            return self._insert_words(self._keys(keys), words_of(values), threads)
        if self._is_strings():
            keys = self._keys(keys)
            if self.value_type in ("str", "bytes"):
                values = strings(values)
            else:
                values = words_of(column(values, self.value_type, "values"))
            return self._insert_strings(keys, values, threads)
        keys, values = list(strings(keys)), list(strings(values))
        if len(keys) != len(values):
            raise ValueError(f"there are {len(keys)} keys and {len(values)} values")
        before = len(self)
        for key, value in zip(keys, values):
            self[key] = value
        return len(self) - before

    def remove_many(self, keys, *, threads=1):
        """Remove many keys; return how many were present.

        >>> Map("u64", "u64", {1: 10}).remove_many([1, 2])
        1
        """
        if self._layout == "words":
            keys, there = self._words_and_mask(keys)
            keys = keys if there is None else keys[there]
            values = np.empty(len(keys), dtype_of(self.value_type))
            return self._pop_words(
                keys, words_of(values), words_of(np.empty(len(keys), dtype=bool)), threads
            )
        if self._is_strings():
            keys, there = self._words_and_mask(keys)
            return self._remove_strings(keys if there is None else keys[there], threads)
        return sum(self._pop(key) is not None for key in strings(keys))

    def pop_many(self, keys, *, threads=1):
        """Remove many keys of a map of numbers; return what `get_many` would have returned.

        >>> Map("u64", "u64", {1: 10}).pop_many([1, 2])
        (array([10,  0], dtype=uint64), array([ True, False]))
        """
        keys, there = self._words_and_mask(keys)
        values = np.zeros(len(keys), dtype_of(self.value_type))
        found = np.zeros(len(keys), dtype=bool)
        _look_up(self._pop_words, keys, there, [values, found], threads)
        return values, found

    def add_many(self, keys, amounts=1, *, threads=1):
        """Add an amount to each key's value, or one amount to all; return how many keys were new.

        Absent keys count as zero. No change of another thread is lost.

        >>> m = Map("str", "u64")
        >>> m.add_many(["a", "b", "a"])
        2
        >>> m["a"]
        2
        """
        one = np.ndim(amounts) == 0
        single = amounts if one else 0
        many = None if one else words_of(column(amounts, self.value_type, "amounts"))
        if self._layout == "words":
            return self._add_words(self._keys(keys), many, single, threads)
        return self._add_strings(self._keys(keys), many, single, threads)


def _empty_map(cls, key, value, table):
    # Not by `cls(…)`: a subclass may have a constructor of its own.
    return _native.Map.__new__(cls, key, value, table, 0)


def _filled_map(cls, key, value, table, keys, values):
    new = _empty_map(cls, key, value, table)
    new.insert_many(keys, values)
    return new


def open(
    path,
    key="u64",
    value="u64",
    *,
    table=None,
    mode="c",
    durability="process",
    interval=None,
    capacity=0,
    multi=False,
    answer_readers=False,
):
    """Open a map in a file, which survives the process, or also the power.

    mode: "c" creates the file if there is none, "w" needs one, "r" only reads. "beside" reads a copy
    of the present state of a file that another process has open and changes.
    durability: what a change survives when its method returns. "process": the process. "interval":
    the power, `interval` seconds later. "synced": the power. "persistent_memory": the power, if the
    file is on such memory.
    table: "iceberg", "pea" or "turbo"; an existing file keeps its own.
    multi: open a `MultiMap`, whose keys are numbers then.
    answer_readers: make copies for processes that open the file "beside" this one. Files of the table
    "iceberg" and files on persistent memory need that; of others readers see the last sync without it.

    Keys and values are numbers, "str" or "bytes". A file of numbers holds words of 8 bytes: it does
    not know whether they are integers or floats, so open it with the types that it was made with.

    >>> import nunatak, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with nunatak.open(folder.name + "/file.map", "str", "u64") as m:
    ...     m["a"] = 1
    >>> with nunatak.open(folder.name + "/file.map", "str", "u64", mode="r") as m:
    ...     m["a"], m.verify()
    (1, 1)
    """
    if capacity < 0:
        raise ValueError("the capacity must not be negative")
    file = (os.fspath(path), mode, durability, interval, capacity, answer_readers)
    if multi:
        if table not in (None, "pea"):
            raise ValueError("the table of a MultiMap is pea")
        return _native.MultiMap.__new__(MultiMap, kind_of(key), kind_of(value), file)
    return _native.Map.__new__(Map, kind_of(key), kind_of(value), table, capacity, file)


class Set(MutableSet):
    """A concurrent set of keys of one type: a `Map` whose values nobody looks at.

    >>> s = Set("u64", [1, 2])
    >>> s.add(2); len(s), 3 in s
    (2, False)
    """

    def __init__(self, key="object", items=(), *, table="dlht", capacity=0):
        value = "object" if kind_of(key) == "object" else "bool"
        self._map = Map(key, value, table=table, capacity=capacity)
        for item in items:
            self.add(item)

    @property
    def key_type(self):
        """The type of the keys."""
        return self._map.key_type

    @property
    def nbytes(self):
        """How many bytes of memory the set occupies."""
        return self._map.nbytes

    def __contains__(self, key):
        return key in self._map

    def __iter__(self):
        return self._map._iter("keys")

    def __len__(self):
        return len(self._map)

    def __repr__(self):
        return f"Set({self.key_type!r}, {{...{len(self)} keys...}})"

    def _from_iterable(self, items):
        return Set(self.key_type, items, table=self._map.table)

    def add(self, key):
        """Add a key."""
        self._map[key] = True

    def discard(self, key):
        """Remove the key if it is present."""
        self._map._pop(key)

    def clear(self):
        """Remove every key."""
        self._map.clear()

    def copy(self):
        """Return a set with the keys of one moment."""
        new = Set(self.key_type, table=self._map.table)
        new._map = self._map.copy()
        return new

    def add_many(self, keys, *, threads=1):
        """Add many keys; return how many were new.

        >>> Set("u64").add_many([1, 2, 1])
        2
        """
        keys = keys if hasattr(keys, "__len__") else list(keys)
        if self.key_type == "object":
            return self._map.insert_many(keys, [True] * len(keys))
        return self._map.insert_many(keys, np.ones(len(keys), dtype=bool), threads=threads)

    def remove_many(self, keys, *, threads=1):
        """Remove many keys; return how many were present."""
        return self._map.remove_many(keys, threads=threads)

    def contains_many(self, keys, *, threads=1):
        """Return an array that tells which keys are present."""
        return self._map.contains_many(keys, threads=threads)
