"""Columns of Arrow: in, out, nulls, and arrays that are broken."""

import gc
import importlib

import numpy as np
import pytest
from by_hand import NEW, ByHand, StreamByHand, offsets, strings, view

import nunatak

LONG = b"a string that does not fit its place"


@pytest.mark.parametrize(
    "array, type, items",
    [
        (strings(b"a", b"", b"ccc"), "str", ["a", "", "ccc"]),
        (ByHand("u", 2, [b"\x05", offsets(1, 2, 2, 4), b"xabc"], offset=1), "str", [None, "bc"]),
        (ByHand("U", 2, [None, offsets(0, 1, 3, code="q"), b"abc"]), "str", ["a", "bc"]),
        (ByHand("z", 2, [b"\x02", offsets(0, 0, 2), b"\xff\x00"]), "bytes", [None, b"\xff\x00"]),
        (
            ByHand("vu", 3, [b"\x05", view(b"a") + b"?" * 16 + view(LONG, 1, 2), b"", b"xx" + LONG, offsets(0, 38, code="q")]),
            "str",
            ["a", None, LONG.decode()],
        ),
        (ByHand("c", 3, [b"\x03", b"\x00\x01\x63"], dictionary=strings(b"x", b"y")), "str", ["x", "y", None]),
        (ByHand("C", 2, [None, b"\x01\x00"], dictionary=ByHand("u", 2, [b"\x01", offsets(0, 1, 1), b"x"])), "str", [None, "x"]),
        (ByHand("l", 2, [None, offsets(-1, 7, code="q")]), "i64", [-1, 7]),
        (ByHand("I", 2, [b"\x02", offsets(0, 7)]), "u32", [None, 7]),
        (ByHand("g", 1, [None, np.float64(0.5).tobytes()]), "f64", [0.5]),
        (ByHand("b", 3, [None, b"\x0a"], offset=1), "bool", [True, False, True]),
        (ByHand("tsn:Asia/Tokyo", 1, [None, offsets(5, code="q")]), "datetime64[ns]", [np.datetime64(5, "ns")]),
        (ByHand("tDm", 1, [None, offsets(-5, code="q")]), "timedelta64[ms]", [np.timedelta64(-5, "ms")]),
        (strings(), "str", []),
    ],
)
def test_columns_of_every_layout(array, type, items):
    column = nunatak.Column(array)
    assert (column.type, column.tolist(), len(column)) == (type, items, len(items))
    assert column.null_count == items.count(None) and list(column) == items
    assert [column[at] for at in range(len(items))] == items
    again = nunatak.Column(column)
    assert (again.type, again.tolist()) == (type, items)
    backwards = np.arange(len(items))[::-1]
    assert column.take(backwards).tolist() == items[::-1]
    assert nunatak.Column(column.take(backwards)).tolist() == items[::-1]
    assert array.released == 0
    del column
    gc.collect()
    # A copy was made only of layouts that are not given out.
    assert array.released in (0, 1)
    del again
    gc.collect()
    assert array.released == 1


@pytest.mark.parametrize(
    "array, words",
    [
        (ByHand("u", 2, [None, offsets(0, 5, 3), b"abcde"]), "not in order"),
        (ByHand("u", 1, [None, offsets(-1, 3), b"abc"]), "not in order"),
        (ByHand("U", 2, [None, offsets(4, 2, 2, code="q"), b"abc"]), "not in order"),
        (ByHand("u", 1, [None, None, b"abc"]), "lacks a buffer"),
        (ByHand("u", 1, [None, offsets(0, 3), None]), "lacks a buffer"),
        (ByHand("u", 1, [None, offsets(0, 3)]), "lacks a buffer"),
        (ByHand("l", 1, [None]), "lacks a buffer"),
        (ByHand("l", -1, [None, b""]), "negative"),
        (ByHand("l", 1, [None, b""], offset=-1), "negative"),
        (ByHand("l", 2**62, [None, b""]), "exceeds the address space"),
        (ByHand("u", 2**63 - 1, [None, offsets(0), b""], offset=2**63 - 1), "exceeds the address space"),
        (ByHand("vu", 1, [None, view(LONG, 1), LONG, offsets(36, code="q")]), "names no buffer"),
        (ByHand("vu", 1, [None, view(LONG, 0, 1), LONG, offsets(36, code="q")]), "exceeds its buffer"),
        (ByHand("c", 2, [None, b"\x00\x02"], dictionary=strings(b"x", b"y")), "exceeds the dictionary"),
        (ByHand("c", 2, [None, b"\x00\xff"], dictionary=strings(b"x", b"y")), "exceeds the dictionary"),
    ],
)
def test_broken_arrays_are_refused(array, words):
    with pytest.raises(ValueError, match=words):
        nunatak.Column(array)
    assert array.released == 1


def test_other_types_are_refused():
    for format, words in [("+s", "not a table"), ("+l", "not a table"), ("d:10,2", "Arrow type"), ("n", "Arrow type")]:
        array = ByHand(format, 0, [None])
        with pytest.raises(TypeError, match=words):
            nunatak.Column(array)
    with pytest.raises(TypeError, match="decode it"):
        nunatak.Column(ByHand("c", 1, [None, b"\x00"], dictionary=ByHand("l", 1, [None, b"12345678"])))
    with pytest.raises(TypeError, match="Arrow column, not list"):
        nunatak.Column([1])
    array = strings(b"a")
    capsules = array.__arrow_c_array__()
    array.__arrow_c_array__ = None

    class Once:
        def __arrow_c_array__(self):
            return capsules

    assert nunatak.Column(Once()).tolist() == ["a"]
    with pytest.raises(ValueError, match="used before"):
        nunatak.Column(Once())

    class Other:
        def __arrow_c_array__(self):
            return NEW(1, b"another", None), NEW(1, b"name", None)

    with pytest.raises(ValueError):
        nunatak.Column(Other())


def test_streams():
    stream = StreamByHand([strings(b"a", b"b"), strings(), strings(b"c")])
    column = nunatak.Column(stream)
    assert column.tolist() == ["a", "b", "c"] and stream.released == 1
    assert [column[at] for at in (-1, 0, 1, 2)] == ["c", "a", "b", "c"]
    for at in (3, -4):
        with pytest.raises(IndexError):
            column[at]
        with pytest.raises(IndexError):
            column.take([at])
    # One array is given out, so this is a copy.
    assert nunatak.Column(column).tolist() == ["a", "b", "c"]
    broken = StreamByHand([strings(b"a")], b"the disk is gone")
    with pytest.raises(RuntimeError, match="the disk is gone"):
        nunatak.Column(broken)
    assert broken.released == 1 and broken.arrays[0].released == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_batches_of_strings(threads):
    items = [f"key {number}".encode() for number in range(20_000)]
    half = StreamByHand([strings(*items[:7_000]), strings(*items[7_000:10_000])])
    map = nunatak.Map("str", "str")
    halves = nunatak.Column(half)
    assert map.insert_many(halves, halves, threads=threads) == 10_000
    valid = b"\xfe" + b"\xff" * 2499
    ends = np.cumsum([0, *(len(item) for item in items)])
    # It lives longer than each call, as its `release` is Python code, which must not run while an exception
    # is on its way.
    asked = nunatak.Column(ByHand("u", 20_000, [valid, offsets(*ends), b"".join(items)]))
    found = map.get_many(asked, arrow=True, threads=threads)
    assert found.type == "str" and found.null_count == 10_001
    expected = [None, *(item.decode() for item in items[1:10_000]), *[None] * 10_000]
    assert found.tolist() == expected
    values, mask = map.get_many(asked, threads=threads)
    assert values == expected and mask.tolist() == [value is not None for value in expected]
    assert (map.contains_many(asked, threads=threads) == mask).all()
    others = nunatak.Column(strings(*items))
    for use in (map.insert_many, lambda keys, values: map.insert_many(values, keys)):
        with pytest.raises(ValueError, match="nulls"):
            use(asked, others)
    keys, values = map.arrays(arrow=True)
    assert dict(zip(keys, values)) == map
    assert map.copy() == map
    assert map.remove_many(asked, threads=threads) == 9_999 and map == {"key 0": "key 0"}
    halves = nunatak.Map("str", "f32", {"a": 0.5})
    assert [side.tolist() for side in halves.arrays(arrow=True)] == [["a"], [0.5]]
    counts = nunatak.Map("str", "i64")
    assert counts.add_many(strings(b"a", b"b", b"a"), threads=threads) == 2 and counts["a"] == 2
    found = counts.get_many(strings(b"x", b"a"), arrow=True)
    assert (found.type, found.tolist()) == ("i64", [None, 2])
    assert counts.get_many(strings(b"x", b"a"), 0).tolist() == [0, 2]
    with pytest.raises(ValueError, match="nulls"):
        counts.add_many(asked)


def test_batches_of_numbers():
    map = nunatak.Map("i64", "f32", {1: 0.5, 2: 1.5, 0: 2.5})
    keys = nunatak.Column(ByHand("l", 3, [b"\x06", offsets(0, 1, 9, code="q")]))
    found = map.get_many(keys, arrow=True)
    assert (found.type, found.tolist()) == ("f32", [None, 0.5, None])
    out = np.full(3, 7, np.float32)
    values, mask = map.get_many(keys, out=out, mask=np.ones(3, bool))
    assert values.tolist() == [7, 0.5, 7] and mask.tolist() == [False, True, False]
    assert map.contains_many(keys).tolist() == [False, True, False]
    values, mask = map.pop_many(keys)
    assert values.tolist() == [0, 0.5, 0] and mask.tolist() == [False, True, False] and len(map) == 2
    assert map.remove_many(keys) == 0
    for use in (map.add_many, lambda keys: map.insert_many(keys, [1, 2, 3])):
        with pytest.raises(ValueError, match="keys have nulls"):
            use(keys)
    with pytest.raises(ValueError, match="values have nulls"):
        map.insert_many([1, 2, 3], ByHand("f", 3, [b"\x06", bytes(12)]))
    texts = nunatak.Map("i64", "str", {1: "one", 0: "none"})
    assert texts.get_many(keys)[0] == [None, "one", None] and texts.get_many(keys, arrow=True).null_count == 2
    assert texts.contains_many(keys).tolist() == [False, True, False]
    assert texts.remove_many(keys) == 1 and texts == {0: "none"}
    narrow = StreamByHand([ByHand("c", 2, [None, b"\x02\x00"]), ByHand("c", 1, [None, b"\xff"])])
    assert map.get_many(narrow, -1).tolist() == [1.5, 2.5, -1]
    flags = nunatak.Map("i64", "bool", {1: True})
    assert flags.get_many([1, 2], arrow=True).tolist() == [True, None]
    assert flags.get_many([1] * 70, arrow=True).tolist() == [True] * 70
    days = nunatak.Map("datetime64[D]", "i8")
    assert days.insert_many(ByHand("tdD", 2, [None, offsets(-1, 1)]), [1, 2]) == 2
    assert days[np.datetime64("1969-12-31")] == 1
    with pytest.raises(TypeError, match="Arrow has no columns"):
        days.arrays(arrow=True)
    for wrong in ({"default": 0}, {"out": out}, {"mask": mask}):
        with pytest.raises(TypeError, match="no default, out or mask"):
            map.get_many([1, 2, 3], arrow=True, **wrong)
    with pytest.raises(TypeError):
        nunatak.Map().get_many([1], arrow=True)
    with pytest.raises(TypeError, match="must be numbers"):
        map.get_many(strings(b"a"))
    with pytest.raises(TypeError, match="expected str, not a column of i64"):
        nunatak.Map("str", "i64").get_many(keys)


def test_null_keys_have_no_values():
    graph = nunatak.MultiMap("i64", "i64", [(0, 1), (1, 5), (1, 6)])
    keys = nunatak.Column(ByHand("l", 4, [b"\x0a", offsets(0, 1, 1, 9, code="q")]))
    offsets_of_all, values = graph.get_all_many(keys)
    assert offsets_of_all.tolist() == [0, 0, 2, 2, 2] and sorted(values.tolist()) == [5, 6]
    assert graph.count_many(keys).tolist() == [0, 2, 0, 0]
    assert graph.remove_all_many(keys).tolist() == [0, 2, 0, 0] and list(graph) == [(0, 1)]
    with pytest.raises(ValueError, match="nulls"):
        graph.insert_many(keys, [1, 2, 3, 4])


def test_arrays_of_numbers_are_read_where_they_lie():
    array = ByHand("l", 3, [None, offsets(9, 5, 6, code="q")], offset=1, nulls=0)
    array.shape = (2, 0, 1)
    ((words, mask),) = nunatak.Column(array)._numbers()
    assert words.tolist() == [5, 6] and mask is None and not words.flags.writeable
    array.memory[1][8] = 7
    assert words.tolist() == [7, 6]
    del words
    gc.collect()
    assert array.released == 1


@pytest.mark.parametrize("bits", [0, 1, 64])
def test_codes_of_strings(bits):
    """Few bits of a hash: strings whose hashes are equal are told apart."""
    from nunatak import _native

    random = np.random.default_rng(3)
    texts = [f"{number}" for number in random.integers(0, 200, 9000)]
    left, right = nunatak.Column._of_strings(texts, "str"), nunatak.Column._of_strings(texts[:50] + ["absent"], "str")
    codes, first = _native.factorize(left, "str", bits)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    assert codes.tolist() == [numbers[text] for text in texts]
    assert left.take(first).tolist() == list(numbers)
    found = np.zeros(len(texts), bool)
    _native.isin(left, right, "str", found.view(np.uint8), 2, bits)
    assert found.tolist() == [text in texts[:50] for text in texts]
    lefts, rights = _native.join(right, left, "str", True, bits)
    assert [(a, b) for a, b in zip(lefts, rights) if b < 0] == [(50, -1)]
    assert all(texts[a] == texts[b] for a, b in zip(lefts, rights) if b >= 0)
    assert len(lefts) == 1 + sum(texts.count(text) for text in texts[:50])


def test_analysis_of_strings():
    texts = ["b", "a", "b", "c", "b", "a"]
    array = strings(*(text.encode() for text in texts))
    for data, kind in [(texts, list), (tuple(texts), list), (np.array(texts), np.ndarray), (np.array(texts, object), np.ndarray), (array, nunatak.Column)]:
        codes, distinct = nunatak.factorize(data)
        assert codes.tolist() == [0, 1, 0, 2, 0, 1] and list(distinct) == ["b", "a", "c"]
        assert type(distinct) is kind
        assert list(nunatak.unique(data)) == ["b", "a", "c"]
        values, counts = nunatak.value_counts(data)
        assert list(values) == ["b", "a", "c"] and counts.tolist() == [3, 2, 1]
        assert nunatak.isin(data, ["a", "x"]).tolist() == [False, True, False, False, False, True]
        assert nunatak.isin(data, []).tolist() == [False] * 6
        assert nunatak.isin([], data).tolist() == []
        lefts, rights = nunatak.join(data, np.array(["c", "a", "x"]), "outer")
        assert sorted(zip(lefts.tolist(), rights.tolist())) == [(-1, 2), (0, -1), (1, 1), (2, -1), (3, 0), (4, -1), (5, 1)]
        seen = nunatak.Deduplicator("str")
        assert seen.add(data).tolist() == [True, True, False, True, False, False]
        assert seen.add(data).sum() == 0 and len(seen) == 3
    assert nunatak.factorize([b"x", b"x"])[1] == [b"x"]
    for wrong in ((texts, [1]), (texts, [b"a"]), ([1], texts)):
        with pytest.raises(TypeError, match="are"):
            nunatak.isin(*wrong)
    with pytest.raises(TypeError):
        nunatak.factorize(["a", 1])
    with pytest.raises(TypeError):
        nunatak.Deduplicator("bytes").add(["a"])
    with pytest.raises(ValueError):
        nunatak.factorize(np.array([["a"]]))


def test_nulls_are_equal_to_nothing():
    texts = ["a", None, "b", None]
    array = ByHand("u", 4, [b"\x05", offsets(0, 1, 1, 2, 2), b"ab"])
    numbers = ByHand("l", 4, [b"\x05", offsets(1, 1, 2, 2, code="q")])
    for data, others in ((texts, ["b", None]), (array, ["b"]), (numbers, [2])):
        codes, distinct = nunatak.factorize(data)
        assert codes.tolist() == [0, -1, 1, -1] and len(distinct) == 2
        assert nunatak.value_counts(data)[1].tolist() == [1, 1]
        assert nunatak.isin(data, others).tolist() == [False, False, True, False]
        lefts, rights = nunatak.join(data, others, "left")
        assert (lefts.tolist(), rights.tolist()) == ([0, 1, 2, 3], [-1, -1, 0, -1])
        lefts, rights = nunatak.join(others, data, "inner")
        assert (lefts.tolist(), rights.tolist()) == ([0], [2])
    assert nunatak.Deduplicator("str").add(array).tolist() == [True, False, True, False]
    assert nunatak.Deduplicator("i64").add(numbers).tolist() == [True, False, True, False]
    with pytest.raises(TypeError):
        nunatak.Map("str", "i64").insert_many(texts, [1, 2, 3, 4])


def test_bytes_that_are_no_text_are_not_given_out(tmp_path):
    with nunatak.open(tmp_path / "file.map", "bytes", "bytes") as map:
        map[b"a"] = b"\xff"
        assert map.get_many([b"a"], arrow=True).tolist() == [b"\xff"]
    with nunatak.open(tmp_path / "file.map", "str", "str") as map:
        with pytest.raises(UnicodeDecodeError):
            map.get_many(["a"], arrow=True)
        with pytest.raises(UnicodeDecodeError):
            map.arrays(arrow=True)


def test_bytes_that_are_no_text_are_not_stored():
    good, bad = ByHand("u", 1, [None, offsets(0, 1), b"a"]), ByHand("u", 1, [None, offsets(0, 1), b"\xff"])
    map = nunatak.Map("str", "str")
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(UnicodeDecodeError):
            map.insert_many(*pair)
    assert len(map) == 0
    map.insert_many(good, good)
    # No key of the map is equal to it.
    assert map.contains_many(bad).tolist() == [False] and map == {"a": "a"}


LIBRARIES = {
    "nanoarrow": (
        lambda library, items: library.c_array(items, library.string()),
        lambda library, column: library.Array(column).to_pylist(),
    ),
    "pyarrow": (
        lambda library, items: library.chunked_array([items[:2], items[2:]], library.string_view()),
        lambda library, column: library.array(column).to_pylist(),
    ),
    "polars": (
        lambda library, items: library.Series(items),
        lambda library, column: library.Series(column).to_list(),
    ),
    "pandas": (
        lambda library, items: library.Series(items, dtype="str"),
        lambda library, column: library.Series.from_arrow(column).astype(object).tolist(),
    ),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_other_libraries(name):
    if name != "nanoarrow":
        pytest.importorskip(name)
    library = importlib.import_module(name)
    make, read = LIBRARIES[name]
    items = ["a", None, LONG.decode(), "a"]
    column = make(library, items)
    assert nunatak.Column(column).tolist() == items
    map = nunatak.Map("str", "str", {"a": "x", LONG.decode(): LONG.decode()})
    found = map.get_many(column, arrow=True)
    expected = ["x", None, LONG.decode(), "x"]
    got = read(library, found)
    assert [None if item != item else item for item in got] == expected
    numbers = nunatak.Map("u64", "u64", {1: 10}).get_many([1, 2], arrow=True)
    got = read(library, numbers)
    assert got[0] == 10 and (got[1] is None or got[1] != got[1])
    assert nunatak.factorize(column)[0].tolist() == [0, -1, 1, 0]
