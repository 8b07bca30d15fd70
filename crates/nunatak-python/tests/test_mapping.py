"""Maps behave as mappings: CPython's own tests, and what is ours."""

import copy
import gc
import pickle
import random
import weakref
from collections.abc import MutableMapping
from test import mapping_tests

import numpy as np
import pytest

import nunatak

TABLES = ["dlht", "iceberg", "pea", "turbo"]


class DlhtDict(nunatak.Map):
    """A map of any objects with the constructor of `dict`."""

    TABLE = "dlht"

    def __new__(cls, *_items, **_others):
        return super().__new__(cls, table=cls.TABLE)

    def __init__(self, items=(), /, **others):
        self.update(items, **others)


class IcebergDict(DlhtDict):
    TABLE = "iceberg"


class PeaDict(DlhtDict):
    TABLE = "pea"


class TurboDict(DlhtDict):
    TABLE = "turbo"


class CPython(mapping_tests.TestHashMappingProtocol):
    """CPython's tests of a hash mapping, for maps of any objects."""

    type2test = DlhtDict

    # The words of our `repr` are others, and it does not call `repr` of the entries.
    def test_repr(self):
        assert repr(nunatak.Map()) == "Map('object', 'object')"

    def test_repr_deep(self):
        map = self.type2test()
        map["me"] = map
        assert "1 entries" in repr(map)

    # Maps with the same entries give them out in orders of their own.
    def test_popitem(self):
        map = self.type2test({str(number): number for number in range(100)})
        left = dict(map)
        while map:
            key, value = map.popitem()
            assert left.pop(key) == value == int(key)
        assert not left

    # Iteration goes over the entries of its beginning, so a change in between is no error.
    def test_mutatingiteration(self):
        map = self.type2test({1: 1})
        for key in map:
            map[key + 1] = 1
        assert len(map) == 2


class TestDlht(CPython):
    type2test = DlhtDict


class TestIceberg(CPython):
    type2test = IcebergDict


class TestPea(CPython):
    type2test = PeaDict


class TestTurbo(CPython):
    type2test = TurboDict


del CPython

ENTRIES = {
    ("u64", "u64"): {0: 0, 1: 10, 2**64 - 1: 2**64 - 1},
    ("i64", "i8"): {-1: -128, 0: 127, -(2**63): 0},
    ("u32", "i32"): {2**32 - 1: -(2**31), 7: 2**31 - 1},
    ("i16", "u8"): {-(2**15): 255, 2**15 - 1: 0},
    ("u64", "f64"): {1: 0.5, 2: float("inf")},
    ("f64", "f32"): {0.5: 0.25, -1.5: -2.0},
    ("bool", "bool"): {True: False, False: True},
    ("str", "u64"): {"": 0, "a": 1, "ä€𝄞": 2**64 - 1},
    ("bytes", "bytes"): {b"": b"", b"\0": b"x" * 5000},
    ("u64", "str"): {1: "a", 2: ""},
    ("str", "f64"): {"a": 0.5},
    ("u64", "object"): {1: None, 2: [1, 2]},
    ("object", "object"): {None: 1, (1, 2): "x", 1.5: None},
    ("str", "object"): {"a": {}, "b": ()},
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("types", ENTRIES, ids=lambda types: "-".join(types))
def test_every_type_round_trips(types, table):
    entries = ENTRIES[types]
    map = nunatak.Map(*types, entries, table=table)
    assert map == entries and entries == map and len(map) == len(entries)
    assert dict(map.items()) == entries
    assert sorted(map.keys(), key=repr) == sorted(entries, key=repr)
    assert sorted(map.values(), key=repr) == sorted(entries.values(), key=repr)
    for key, value in entries.items():
        assert key in map and map[key] == value and type(map[key]) is type(value)
    for other in (map.copy(), copy.copy(map), copy.deepcopy(map), pickle.loads(pickle.dumps(map))):
        assert other == map and other is not map and type(other) is nunatak.Map
        assert (other.key_type, other.value_type, other.table) == (*types, table)
        other.clear()
        assert len(other) == 0 and len(map) == len(entries)
    key = next(iter(map))
    del map[key]
    assert key not in map and len(map) == len(entries) - 1
    with pytest.raises(KeyError) as raised:
        map[key]
    assert raised.value.args == (key,)
    assert map.pop(key, "absent") == "absent"
    while map:
        assert map.popitem()[0] in entries
    with pytest.raises(KeyError):
        map.popitem()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "types, key_of, value_of",
    [
        (("u64", "i64"), int, lambda number: -number),
        (("str", "str"), str, str),
        (("str", "u32"), str, int),
        (("object", "object"), str, str),
    ],
)
def test_random_operations_agree_with_dict(types, key_of, value_of, table):
    chance = random.Random(7)
    map, model = nunatak.Map(*types, table=table), {}
    for _ in range(4000):
        key, value = key_of(chance.randrange(200)), value_of(chance.randrange(1000))
        match chance.randrange(8):
            case 0 | 1:
                map[key] = model[key] = value
            case 2:
                assert map.pop(key, None) == model.pop(key, None)
            case 3:
                assert map.get(key) == model.get(key)
            case 4:
                assert (key in map) == (key in model)
            case 5:
                assert map.setdefault(key, value) == model.setdefault(key, value)
            case 6:
                assert map.try_insert(key, value) == (key not in model)
                model.setdefault(key, value)
            case 7:
                assert len(map) == len(model)
    assert map == model


def test_it_is_a_mutable_mapping():
    assert issubclass(nunatak.Map, MutableMapping)
    with pytest.raises(TypeError):
        hash(nunatak.Map())


def test_unions():
    map = nunatak.Map("str", "u64", {"a": 1})
    assert map | {"b": 2} == {"a": 1, "b": 2} and map == {"a": 1}
    assert {"b": 2, "a": 3} | map == {"a": 1, "b": 2}
    map |= {"c": 3}
    assert map == {"a": 1, "c": 3}
    with pytest.raises(TypeError):
        map | 7


def test_times_are_keys_and_values():
    moment, span = np.datetime64("2026-11-24T12:00", "s"), np.timedelta64(90, "m")
    map = nunatak.Map("datetime64[s]", "timedelta64[m]", {moment: span})
    assert map[moment] == span and next(iter(map)) == moment
    keys, values = map.arrays()
    assert keys.dtype == "datetime64[s]" and values.dtype == "timedelta64[m]"


def test_nan_is_one_key_and_so_are_the_zeros():
    map = nunatak.Map("f64", "u64", {float("nan"): 1, -0.0: 2})
    assert map[-float("nan")] == 1 and map[0.0] == 2 and len(map) == 2
    assert map.get_many([0.0, float("nan")], 0).tolist() == [2, 1]


@pytest.mark.parametrize(
    "types, key, error",
    [
        (("u64", "u64"), "a", TypeError),
        (("u64", "u64"), 1.5, TypeError),
        (("u64", "u64"), -1, OverflowError),
        (("u8", "u64"), 256, OverflowError),
        (("i8", "u64"), 128, OverflowError),
        (("i64", "u64"), 2**63, OverflowError),
        (("str", "u64"), b"a", TypeError),
        (("str", "u64"), "\ud800", UnicodeEncodeError),
        (("bytes", "u64"), "a", TypeError),
        (("object", "object"), [], TypeError),
        (("u64", "object"), "a", TypeError),
    ],
)
def test_a_key_of_another_type_is_refused(types, key, error):
    map = nunatak.Map(*types)
    for use in (map.get, map.pop, lambda key: key in map, lambda key: map.update([(key, 1)])):
        with pytest.raises(error):
            use(key) if use is not map.pop else map.pop(key, None)


def test_a_value_of_another_type_is_refused_and_nothing_is_lost():
    map = nunatak.Map("u64", "u8", {1: 1})
    for value in (256, -1, "a", None, 1.0):
        with pytest.raises((TypeError, OverflowError)):
            map[1] = value
    assert map == {1: 1}


@pytest.mark.parametrize("arguments", [("u65",), ("u64", complex), ("S8",), (None,), ("datetime64",), ({"a": 1},), (["a"],), ("a,,b",)])
def test_an_unknown_type_is_refused(arguments):
    with pytest.raises(TypeError, match="no keys or values of type"):
        nunatak.Map(*arguments)


def test_unknown_tables_and_capacities_are_refused():
    with pytest.raises(ValueError, match="dlht, iceberg, pea or turbo"):
        nunatak.Map(table="cuckoo")
    with pytest.raises((OverflowError, MemoryError)):
        nunatak.Map("u64", "u64", capacity=2**62)
    with pytest.raises(ValueError):
        nunatak.Map(capacity=-1)


def test_sums_and_exchanges():
    counts = nunatak.Map("str", "i32")
    assert [counts.add("a"), counts.add("a", -3), counts["a"]] == [1, -2, -2]
    sums = nunatak.Map("u64", "f64")
    assert sums.add(1, 0.5) + sums.add(1, 0.25) == 1.25
    small = nunatak.Map("u64", "u8", {1: 255})
    assert small.add(1) == 0 and small[1] == 0
    assert small.compare_exchange(1, 0, 7) and not small.compare_exchange(1, 0, 8)
    assert small == {1: 7} and not small.compare_exchange(2, 0, 8)
    with pytest.raises(TypeError):
        nunatak.Map("u64", "bool").add(1)
    with pytest.raises(TypeError):
        nunatak.Map().add(1)


class Raising:
    def __init__(self, hash, raises=False):
        self.hash, self.raises = hash, raises

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        if self.raises or other.raises:
            raise ZeroDivisionError("on purpose")
        return self is other


@pytest.mark.parametrize("table", TABLES)
def test_an_exception_of_a_comparison_is_raised_and_changes_nothing(table):
    map = nunatak.Map(table=table)
    good, bad = Raising(1), Raising(1, raises=True)
    map[good] = 1
    for use in (map.get, map.pop, map.__contains__, lambda key: map.__setitem__(key, 2)):
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            use(bad)
    assert map[good] == 1 and len(map) == 1


@pytest.mark.parametrize("table", TABLES)
def test_a_comparison_may_change_the_map(table):
    map = nunatak.Map(table=table)

    class Busy:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            map[len(map) + 1000] = 1
            return self is other

    one, other = Busy(), Busy()
    map[one], map[other] = 1, 2
    assert map[one] == 1 and map[other] == 2 and len(map) > 2


class Object:
    pass


@pytest.mark.parametrize("table", TABLES)
def test_objects_live_as_long_as_the_map_has_them(table):
    map = nunatak.Map(table=table)
    seen = []
    for number in range(1000):
        value = Object()
        seen.append(weakref.ref(value))
        map[number] = value
    del value
    assert all(ref() is not None for ref in seen)
    for number in range(500):
        map[number] = None
    for number in range(500, 1000):
        del map[number]
    assert map.reclaim() == 0
    assert all(ref() is None for ref in seen)


@pytest.mark.parametrize("table", TABLES)
def test_cycles_through_a_map_are_collected(table):
    map, value = nunatak.Map(table=table), Object()
    map["me"], map["value"], value.map = map, value, map
    gone = weakref.ref(value)
    del map, value
    gc.collect()
    gc.collect()
    assert gone() is None


def test_iterators_are_independent_of_later_changes():
    map = nunatak.Map("u64", "u64", {number: number for number in range(1000)})
    keys = iter(map)
    next(keys)
    map.clear()
    assert len(list(keys)) == 999 and list(map) == []
    assert keys.__length_hint__() == 0 and next(keys, None) is None


def test_a_subclass_keeps_its_class_and_attributes():
    map = Named("u64", "u64", {1: 2})
    map.name = "mine"
    again = pickle.loads(pickle.dumps(map))
    assert type(again) is Named and again == map and again.name == "mine"
    assert type(map.copy()) is Named


class Named(nunatak.Map):
    pass


def test_sets():
    keys = nunatak.Set("u64", [1, 2])
    assert keys | {3} == {1, 2, 3} and keys & {2, 3} == {2} and keys - {1} == {2}
    assert keys.add_many([2, 3, 4]) == 2 and keys.remove_many([1, 9]) == 1
    assert keys.contains_many([1, 2]).tolist() == [False, True]
    keys.discard(2)
    with pytest.raises(KeyError):
        keys.remove(2)
    assert keys == {3, 4} and nunatak.Set(items=["a", None]) == {"a", None}
    assert nunatak.Set("str", ["a"]).copy() == {"a"}


@pytest.mark.parametrize("kind", ["u8", "i8", "u32", "u64", "i64"])
def test_lookups_take_all_numbers_of_the_type(kind):
    class Five:
        def __index__(self):
            return 5

    limits = np.iinfo(nunatak._columns.dtype_of(kind))
    numbers = [int(limits.min), 5, int(limits.max), *([-1] if limits.min else [])]
    map = nunatak.Map(kind, kind, {number: number for number in numbers})
    for number in numbers:
        assert map[number] == map.get(number) == number and number in map
    for five in (Five(), np.int16(5), np.uint64(5)):
        assert map[five] == map.get(five) == 5 and five in map
    with pytest.raises(KeyError) as raised:
        map[6]
    assert raised.value.args == (6,) and map.get(6) is None and map.get(6, "none") == "none"
    for wrong, error in ((int(limits.max) + 1, OverflowError), (1.0, TypeError), (None, TypeError)):
        for look in (map.get, map.__getitem__, map.__contains__):
            with pytest.raises(error, match=kind):
                look(wrong)
