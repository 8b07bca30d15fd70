"""Any number of values for a string."""

import copy
import pickle
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from by_hand import ByHand, offsets, strings

import nunatak

NUMBERS = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "bool", "datetime64[ns]", "timedelta64[s]"]
NAMES = {"str": ["", "a", "schön", "b" * 5000, "\0"], "bytes": [b"", b"a", b"\xff\xfe", b"b" * 5000, b"\0"]}


def groups_of(pairs):
    groups = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: sorted(values) for key, values in groups.items()}


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("key", ["str", "bytes"])
def test_every_type_of_values(key, value):
    map = nunatak.MultiMap(key, value)
    assert (map.key_type, map.value_type) == (key, value)
    zero, one = (False, True) if value == "bool" else (0, 1)
    for name in NAMES[key]:
        map.insert(name, one)
        map.insert_many([name, name], np.array([zero, one], map.get_all(name).dtype))
        assert map.count(name) == 3 and name in map
        assert sorted(map.get_all(name).astype(int).tolist()) == [0, 1, 1]
        assert not map.insert_unique(name, one) and map.remove_one(name, one)
        assert sorted(map.get_all(name).astype(int).tolist()) == [0, 1]
    assert len(map) == 2 * len(NAMES[key]) and sorted(map.distinct_keys()) == sorted(NAMES[key])
    absent = "absent" if key == "str" else b"absent"
    assert map.get_all(absent).tolist() == [] and absent not in map


@pytest.mark.parametrize("key", ["str", "bytes"])
def test_single_operations(key):
    one, other, absent, *_ = ("a", "b", "c") if key == "str" else (b"a", b"b", b"c")
    map = nunatak.MultiMap(key, "i32", [(one, -1), (one, 5), (other, 7)])
    assert len(map) == 3 and repr(map) == f"MultiMap('{key}', 'i32', {{...3 values...}})"
    assert map.insert_unique(one, 6) and not map.insert_unique(one, 6)
    assert sorted(map) == [(one, -1), (one, 5), (one, 6), (other, 7)]
    assert map.remove_one(one, -1) and not map.remove_one(one, -1) and not map.remove_one(absent, 5)
    assert sorted(map.get_all(one).tolist()) == [5, 6] and map.get_all(one).dtype == np.int32
    assert map.remove_all(one) == 2 and map.remove_all(one) == 0
    assert one not in map and absent not in map and other in map
    assert map.count(one) == 0 and map.distinct_keys() == [other]
    assert map.nbytes > 0 and map.path is None and not map.closed
    map.clear()
    assert len(map) == 0 and list(map) == [] and map.distinct_keys() == []
    assert map.arrays()[0] == [] and map.arrays()[1].dtype == np.int32
    keys, of_keys, values = map.groups()
    assert (keys, of_keys.tolist(), values.tolist()) == ([], [0], [])
    map.close()
    assert not map.closed
    with map as same:
        assert same is map
    with pytest.raises(TypeError, match="no file"):
        map.sync()


def test_a_byte_string_may_be_a_bytearray():
    map = nunatak.MultiMap("bytes", "u8")
    map.insert(bytearray(b"a"), 1)
    map.insert_many([bytearray(b"a"), b"b"], [2, 3])
    assert groups_of(map) == {b"a": [1, 2], b"b": [3]}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batches_agree_with_lists(threads):
    random = np.random.default_rng(5)
    keys = [f"key {number}" * (number % 7) for number in random.integers(0, 3000, 20_000).tolist()]
    values = random.integers(-50, 50, len(keys))
    expected = groups_of(zip(keys, values.tolist()))
    map = nunatak.MultiMap("str", "i64")
    assert map.insert_many(keys, values, threads=threads) is None
    assert len(map) == len(keys) and groups_of(map) == expected
    asked = [*expected, "absent", *list(expected)[:10]]
    ends, found = map.get_all_many(asked)
    assert ends.dtype == np.int64 and len(ends) == len(asked) + 1 and ends[-1] == len(found)
    for at, key in enumerate(asked):
        assert sorted(found[ends[at] : ends[at + 1]].tolist()) == expected.get(key, [])
    assert map.count_many(asked).tolist() == [len(expected.get(key, [])) for key in asked]
    assert map.count_many(asked).dtype == np.int64
    names, counts = map.distinct_keys(return_counts=True)
    assert dict(zip(names, counts.tolist())) == {key: len(of_key) for key, of_key in expected.items()}
    assert sorted(map.distinct_keys()) == sorted(expected)
    names, ends, found = map.groups()
    shown = {name: sorted(found[ends[at] : ends[at + 1]].tolist()) for at, name in enumerate(names)}
    assert shown == expected and len(names) == len(expected)
    removed = map.remove_all_many(asked)
    assert removed.tolist() == [len(expected.get(key, [])) for key in asked[:-10]] + [0] * 10
    assert len(map) == 0 and map.count_many(asked).sum() == 0
    pairs = set(zip(keys, values.tolist()))
    assert map.insert_unique_many(keys, values, threads=threads) == len(pairs)
    assert map.insert_unique_many(keys, values, threads=threads) == 0
    assert set(map) == pairs and len(map) == len(pairs)


def test_keys_of_every_layout():
    texts = ["a", "bb", "a", "a string that is longer than others", ""]
    column = nunatak.Map("u64", "str", dict(enumerate(texts))).get_many(range(5), arrow=True)
    by_hand = strings(*(text.encode() for text in texts))
    dictionary = ByHand("C", 3, [None, b"\x01\x00\x01"], dictionary=strings(b"bb", b"a"))
    for keys in (texts, tuple(texts), np.array(texts), np.array(texts, object), column, by_hand, nunatak.Column(by_hand)):
        map = nunatak.MultiMap("str", "u64")
        map.insert_many(keys, range(5))
        assert groups_of(map) == {"a": [0, 2], "bb": [1], texts[3]: [3], "": [4]}
        assert map.count_many(keys).tolist() == [2, 1, 2, 1, 1]
        ends, values = map.get_all_many(keys)
        assert ends.tolist() == [0, 2, 3, 5, 6, 7] and values.tolist()[2] == 1
        assert map.insert_unique_many(keys, range(5)) == 0
        assert map.count_many(dictionary).tolist() == [2, 1, 2]
        assert map.remove_all_many(keys).tolist() == [2, 1, 0, 1, 1]
    map.insert_many((text for text in texts), np.arange(5, dtype=np.uint64))
    assert map.count_many(text for text in texts).tolist() == [2, 1, 2, 1, 1]
    names = nunatak.MultiMap("bytes", "u64")
    names.insert_many(np.array([b"x", b"y"]), [1, 2])
    names.insert_many(ByHand("z", 2, [None, offsets(0, 1, 2), b"xz"]), [3, 4])
    assert groups_of(names) == {b"x": [1, 3], b"y": [2], b"z": [4]}


def test_results_are_columns():
    map = nunatak.MultiMap("str", "f32", [("a", 0.5), ("a", 1.5), ("b", 2.5)])
    keys, values = map.arrays(arrow=True)
    assert (keys.type, values.type) == ("str", "f32")
    assert groups_of(zip(keys.tolist(), values.tolist())) == {"a": [0.5, 1.5], "b": [2.5]}
    keys, counts = map.distinct_keys(return_counts=True, arrow=True)
    assert isinstance(keys, nunatak.Column) and dict(zip(keys, counts.tolist())) == {"a": 2, "b": 1}
    assert map.count_many(keys).tolist() == counts.tolist()
    keys, ends, values = map.groups(arrow=True)
    assert dict(zip(keys, np.diff(ends).tolist())) == {"a": 2, "b": 1}
    assert len(keys) == 2 and values.type == "f32" and len(values) == 3
    numbers = nunatak.MultiMap("i16", "f32", [(-1, 0.5)])
    for keys, *_, values in (numbers.arrays(arrow=True), numbers.groups(arrow=True)):
        assert (keys.type, keys.tolist(), values.tolist()) == ("i16", [-1], [0.5])
    assert numbers.distinct_keys(arrow=True).tolist() == [-1]


def test_null_keys_have_no_values():
    map = nunatak.MultiMap("str", "i64", [("", 1), ("b", 5), ("b", 6)])
    keys = nunatak.Column(ByHand("u", 5, [b"\x0a", offsets(0, 1, 2, 3, 4, 5), b"xbbba"]))
    assert keys.tolist() == [None, "b", None, "b", None]
    ends, values = map.get_all_many(keys)
    assert ends.tolist() == [0, 0, 2, 2, 4, 4] and sorted(values.tolist()) == [5, 5, 6, 6]
    assert map.count_many(keys).tolist() == [0, 2, 0, 2, 0]
    assert map.remove_all_many(keys).tolist() == [0, 2, 0, 0, 0] and list(map) == [("", 1)]
    for insert in (map.insert_many, map.insert_unique_many):
        with pytest.raises(ValueError, match="keys have nulls"):
            insert(keys, range(5))
    # Over the borders of blocks.
    many = nunatak.Column._of_strings(["" if at % 3 else None for at in range(20_000)], "str")
    assert (map.count_many(many) == (np.arange(20_000) % 3 > 0)).all()
    ends, values = map.get_all_many(many)
    assert (np.diff(ends) == (np.arange(20_000) % 3 > 0)).all() and (values == 1).all()


def test_wrong_arguments():
    map = nunatak.MultiMap("str", "u8", [("a", 1)])
    for use in (map.count, map.get_all, map.remove_all, map.__contains__):
        with pytest.raises(TypeError, match="expected str, not int"):
            use(1)
        with pytest.raises(TypeError, match="expected str, not bytes"):
            use(b"a")
    for use in (map.insert, map.insert_unique, map.remove_one):
        with pytest.raises(TypeError, match="expected str, not bytes"):
            use(b"a", 1)
        with pytest.raises(TypeError, match="expected u8, not str"):
            use("a", "1")
        with pytest.raises(OverflowError):
            use("a", 256)
    with pytest.raises(UnicodeEncodeError):
        map.insert("\ud800", 1)
    for use in (map.get_all_many, map.count_many, map.remove_all_many):
        with pytest.raises(TypeError, match="many strings"):
            use("a")
        with pytest.raises(TypeError, match="expected str, not int"):
            use(["a", 1])
        with pytest.raises(TypeError, match="expected str, not NoneType"):
            use(["a", None])
        with pytest.raises(TypeError, match="expected str, not a column of bytes"):
            use(nunatak.Column(ByHand("z", 1, [None, offsets(0, 1), b"a"])))
    for use in (map.insert_many, map.insert_unique_many):
        with pytest.raises(ValueError, match="2 keys and 1 values"):
            use(["a", "b"], [1])
        with pytest.raises(TypeError, match="float64, and the map has u8"):
            use(["a"], np.array([0.5]))
        with pytest.raises(OverflowError):
            use(["a"], [256])
        with pytest.raises(ValueError, match="threads"):
            use(["a"], [1], threads=0)
    with pytest.raises(TypeError, match="expected bytes, not str"):
        nunatak.MultiMap("bytes", "u8").insert("a", 1)
    assert list(map) == [("a", 1)]
    for types in (("object", "u64"), ("str", "str"), ("u64", "bytes"), ("str", "object")):
        with pytest.raises(TypeError, match="keys that are numbers, str or bytes, and values that are numbers"):
            nunatak.MultiMap(*types)


@pytest.mark.parametrize("key", ["str", "bytes"])
def test_copies_and_pickles(key):
    pairs = [(name, at) for name in NAMES[key] for at in (-1, 0, 0)]
    map = Named(key, "i32", pairs)
    map.notes = ["mine"]
    copies = (map.copy(), copy.copy(map), copy.deepcopy(map), pickle.loads(pickle.dumps(map)))
    for other in copies:
        assert type(other) is Named and (other.key_type, other.value_type) == (key, "i32")
        assert groups_of(other) == groups_of(pairs) and other.notes == ["mine"]
        other.clear()
    assert len(map) == len(pairs)
    assert copies[1].notes is map.notes and copies[2].notes is not map.notes
    assert len(pickle.loads(pickle.dumps(nunatak.MultiMap(key, "i32")))) == 0


class Named(nunatak.MultiMap):
    pass


def test_bytes_that_are_no_text_are_not_stored():
    map = nunatak.MultiMap("str", "u8")
    bad = ByHand("u", 2, [None, offsets(0, 1, 2), b"a\xff"])
    for use in (map.insert_many, map.insert_unique_many):
        with pytest.raises(UnicodeDecodeError):
            use(bad, [1, 2])
    assert len(map) == 0
    # As bytes they are.
    map = nunatak.MultiMap("bytes", "u8")
    map.insert_many(ByHand("z", 2, [None, offsets(0, 1, 2), b"a\xff"]), [1, 2])
    assert b"\xff" in map


def test_threads_share_a_map():
    map = nunatak.MultiMap("str", "i64")
    names = [f"name {at % 50}" for at in range(10_000)]
    with ThreadPoolExecutor(2) as pool:
        added = pool.map(lambda _: map.insert_unique_many(names, range(10_000)), range(2))
        assert sum(added) == 10_000 == len(map)

        def churn(number):
            for step in range(200):
                name = f"name {step % 7}"
                map.insert(name, number)
                assert number in map.get_all(name)
                assert map.remove_one(name, number)

        list(pool.map(churn, [-1, -2]))
    assert len(map) == 10_000 and map.count_many([f"name {at}" for at in range(50)]).tolist() == [200] * 50


def test_other_threads_run_during_batches():
    map = nunatak.MultiMap("bytes", "u64")
    keys = nunatak.Column._of_strings([b"%d" % (at % 50_000) for at in range(500_000)], "bytes")
    some, values = keys.take(np.arange(50_000)), np.arange(500_000, dtype=np.uint64)
    turns, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    before = sys.getswitchinterval()
    # No thread takes the interpreter from another that does not let it go.
    sys.setswitchinterval(60)
    try:
        other.start()
        seen = []
        for batch in (
            lambda: map.insert_many(keys, values),
            lambda: map.insert_unique_many(keys, values),
            lambda: map.count_many(keys),
            lambda: map.get_all_many(some),
            map._entries,
            map._distinct_keys,
            map._groups,
            lambda: map.remove_all_many(keys),
        ):
            begun = turns[0]
            batch()
            seen.append(turns[0] - begun)
    finally:
        ended.set()
        sys.setswitchinterval(before)
    other.join()
    assert all(seen) and len(map) == 0
