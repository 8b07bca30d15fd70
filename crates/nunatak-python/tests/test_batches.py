"""Arrays in, arrays out."""

import copy
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nunatak

TABLES = ["dlht", "iceberg", "pea", "turbo"]
NUMBERS = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batches_agree_with_arrays(table, threads):
    keys = np.random.default_rng(1).permutation(np.arange(1, 50_001, dtype=np.uint64))
    values = keys * np.uint64(3)
    map = nunatak.Map("u64", "u64", table=table)
    assert map.insert_many(keys, values, threads=threads) == len(keys)
    assert map.insert_many(keys[:10], values[:10], threads=threads) == 0
    asked = np.arange(0, 100_000, dtype=np.uint64)
    found, mask = map.get_many(asked, threads=threads)
    expected = (asked >= 1) & (asked <= 50_000)
    assert (mask == expected).all() and mask.dtype == bool
    assert (found == np.where(expected, asked * np.uint64(3), 0)).all() and found.dtype == np.uint64
    assert (map.contains_many(asked, threads=threads) == expected).all()
    assert (map.get_many(asked, 7, threads=threads)[~expected] == 7).all()
    assert map.add_many(asked[:2], threads=threads) == 1 and map[1] == 4 and map[0] == 1
    assert map.remove_many(asked[:30_000], threads=threads) == 30_000
    popped, mask = map.pop_many(asked, threads=threads)
    assert mask.sum() == 20_001 and popped[50_000] == 150_000 and len(map) == 0


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", NUMBERS + ["bool"])
def test_every_width(key, value):
    def dtype(name):
        return np.dtype({"bool": "?"}.get(name, name[0] + str(int(name[1:] if name != "bool" else 8) // 8)))

    keys = np.arange(-60 if key[0] in "if" else 1, 120).astype(dtype(key))
    values = np.arange(len(keys)).astype(dtype(value))
    map = nunatak.Map(key, value)
    map.insert_many(keys, values)
    assert len(map) == len(keys)
    found, mask = map.get_many(keys)
    assert mask.all() and (found == values).all() and found.dtype == dtype(value)
    for at in (0, 5, len(keys) - 1):
        assert map[keys[at].item()] == values[at].item()
    map[keys[0].item()] = values[3].item()
    assert map.get_many(keys[:1])[0][0] == values[3]
    if value != "bool":
        map.add_many(keys[:3], values[:3])
        assert map[keys[2].item()] == values[2].item() * 2
    some, others = map.arrays()
    assert some.dtype == dtype(key) and others.dtype == dtype(value)
    assert sorted(some.tolist()) == sorted(keys.tolist())


def test_results_go_into_the_callers_arrays():
    map = nunatak.Map("u64", "f32", {1: 0.5})
    out, mask = np.full(2, 9, np.float32), np.ones(2, bool)
    values, found = map.get_many([1, 2], out=out, mask=mask)
    assert values is out and found is mask
    assert out.tolist() == [0.5, 9] and mask.tolist() == [True, False]


def test_counts_of_equal_keys_are_not_lost_between_threads():
    keys = np.random.default_rng(1).integers(0, 100, 300_000)
    map = nunatak.Map("i64", "u64")
    assert map.add_many(keys, threads=4) == 100
    found = map.get_many(np.arange(100), 0)
    assert (found == np.bincount(keys)).all()
    sums = nunatak.Map("i64", "f64")
    sums.add_many(keys, np.ones(len(keys)), threads=4)
    assert (sums.get_many(np.arange(100), 0) == np.bincount(keys)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_strings(threads):
    map = nunatak.Map("str", "i64")
    keys = [f"key {number}" for number in range(20_000)]
    assert map.insert_many(keys, np.arange(20_000), threads=threads) == 20_000
    values, mask = map.get_many(keys[::-1] + ["absent"], threads=threads)
    assert values.tolist() == [*range(19_999, -1, -1), 0] and mask.sum() == 20_000
    assert map.get_many(np.array(["key 7", "x"]), -1).tolist() == [7, -1]
    assert map.add_many(["key 7", "new"], [1, 2], threads=threads) == 1 and map["key 7"] == 8
    assert map.contains_many(["new", "newer"]).tolist() == [True, False]
    assert map.remove_many(keys, threads=threads) == 20_000 and map == {"new": 2}
    texts = nunatak.Map("bytes", "str")
    texts.insert_many([b"a", b"b"], ["x", "y"])
    values, mask = texts.get_many([b"b", b"c"])
    assert values == ["y", None] and texts.get_many([b"c"], "z") == ["z"]
    with pytest.raises(TypeError):
        map.get_many("one string")


def test_objects():
    map = nunatak.Map("u64", "object")
    assert map.insert_many([1, 2], ["a", None]) == 2
    values, mask = map.get_many([2, 3, 1])
    assert values == [None, None, "a"] and mask.tolist() == [True, False, True]
    assert map.remove_many([1, 9]) == 1


@pytest.mark.parametrize(
    "keys, error",
    [
        (np.zeros(3, np.float64), TypeError),
        (np.array([-1]), TypeError),
        (np.array(["a"]), TypeError),
        (np.zeros((2, 2), np.uint64), ValueError),
        (np.array(7, np.uint64), ValueError),
        ([1.5], TypeError),
        ([-1], OverflowError),
        ([2**64], OverflowError),
        ([np.float32(1.5)], TypeError),
        (["1"], TypeError),
        ([b"1"], TypeError),
        ([np.str_("1")], TypeError),
        (["a"], TypeError),
        ([None], TypeError),
        ([[1, 2], [3]], (TypeError, ValueError)),
    ],
)
def test_bad_keys_are_refused(keys, error):
    map = nunatak.Map("u64", "u64", {1: 1})
    for use in (
        map.get_many,
        map.contains_many,
        map.remove_many,
        map.add_many,
        map.pop_many,
        lambda keys: map.insert_many(keys, np.zeros(len(keys) if np.ndim(keys) else 1, np.uint64)),
    ):
        with pytest.raises(error):
            use(keys)
    assert map == {1: 1}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("f64", [0.5, 1, np.float32(2)], ["1", b"1", None]),
        ("bool", [True, False, np.True_], ["True", 1, 0.0, None, ""]),
        ("datetime64[D]", ["2026-01-02", np.datetime64("2026-01-03")], [1.5, "ice"]),
    ],
)
def test_items_of_lists_have_the_type_of_the_map(kind, good, bad):
    map = nunatak.Map("u64", kind)
    map.insert_many(range(len(good)), good)
    expected = [np.datetime64(item) if kind == "datetime64[D]" else item for item in good]
    assert [map[at] for at in range(len(good))] == expected
    for item in bad:
        with pytest.raises((TypeError, ValueError)):
            map.insert_many([9, 10], [good[0], item])
    assert len(map) == len(good)


def test_bad_results_are_refused():
    map = nunatak.Map("u64", "u64", {1: 1})
    keys = np.arange(4, dtype=np.uint64)
    read_only = np.zeros(4, np.uint64)
    read_only.flags.writeable = False
    for out, error in [
        (read_only, ValueError),
        (np.zeros(8, np.uint64)[::2], ValueError),
        (np.zeros(3, np.uint64), ValueError),
        (np.zeros(4, np.int64), TypeError),
        ([0] * 4, TypeError),
        (keys, TypeError),
    ]:
        with pytest.raises(error):
            map.get_many(keys, out=out)
    assert keys.tolist() == [0, 1, 2, 3]


def test_lengths_must_agree():
    map = nunatak.Map("u64", "u64")
    with pytest.raises(ValueError, match="3 keys and 2 values"):
        map.insert_many([1, 2, 3], [1, 2])
    with pytest.raises(ValueError):
        map.add_many([1, 2, 3], [1, 2])
    with pytest.raises(ValueError):
        nunatak.Map("str", "u64").insert_many(["a"], [])
    for threads in (0, 1025):
        with pytest.raises(ValueError, match="1 to 1024 threads"):
            map.get_many([1], threads=threads)
    with pytest.raises(OverflowError):
        map.get_many([1], threads=-1)
    assert len(map) == 0


def test_arrays_of_other_layouts_are_read():
    map = nunatak.Map("u64", "u64")
    read_only = np.arange(10, dtype=np.uint64)
    read_only.flags.writeable = False
    assert map.insert_many(read_only, read_only) == 10
    assert map.get_many(np.arange(20, dtype=np.uint64)[::-2])[1].sum() == 5
    assert map.get_many(np.arange(5, dtype=">u8"))[1].all()
    assert map.get_many(np.arange(5, dtype=np.uint16))[1].all()
    assert map.get_many(range(5))[1].all()
    assert map.get_many([])[0].tolist() == []
    assert map.get_many(np.frombuffer(read_only.tobytes(), np.uint64))[1].all()


def test_other_threads_run_during_a_batch():
    map = nunatak.Map("u64", "u64")
    keys = np.arange(4_000_000, dtype=np.uint64)
    turns, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0.0001)

    other = threading.Thread(target=count)
    other.start()
    map.insert_many(keys, keys)
    ended.set()
    other.join()
    assert turns[0] > 20


def test_threads_share_a_map():
    map = nunatak.Map("u64", "u64")
    keys = np.arange(100_000, dtype=np.uint64)
    threads = [
        threading.Thread(target=lambda: map.add_many(keys, np.ones(len(keys), np.uint64)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (map.get_many(keys, 0) == 4).all() and len(map) == len(keys)


def run(program, **options):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, **options
    )


def test_an_interrupt_ends_a_long_batch_and_keeps_what_was_stored():
    program = """
import numpy as np, nunatak, os, signal, threading, time
# A shell that starts the tests in the background makes them ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
map = nunatak.Map("u64", "u64", capacity=1 << 16)
keys = np.arange(1 << 16, dtype=np.uint64)
many = np.tile(keys, 4096)

def interrupt():
    while not map.get(65535):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    map.add_many(many)
except KeyboardInterrupt:
    assert 0 < map[65535] < 4096, map[65535]
    assert len(map) == 1 << 16
    print("interrupted")
"""
    ran = run(program)
    assert ran.stdout == "interrupted\n", ran.stderr


def test_the_interpreter_ends_with_live_maps_and_threads():
    program = """
import numpy as np, nunatak, threading
maps = [nunatak.Map(table=table) for table in ("dlht", "iceberg", "pea", "turbo")]
for map in maps:
    for number in range(1000):
        map[number] = [map, number]
class Last:
    def __init__(self, map): self.map = map
    def __del__(self): self.map["late"] = 1
maps[0]["last"] = Last(maps[0])
numbers = nunatak.Map("u64", "u64")
keys = np.arange(30_000_000, dtype=np.uint64)
threading.Thread(target=lambda: numbers.insert_many(keys, keys), daemon=True).start()
import builtins; builtins.kept = maps
print("ended")
"""
    ran = run(program)
    assert (ran.returncode, ran.stdout) == (0, "ended\n"), ran.stderr


def test_multimap():
    graph = nunatak.MultiMap("u32", "i32")
    sources = np.repeat(np.arange(5000, dtype=np.uint32), 3)
    graph.insert_many(sources, np.tile(np.array([-1, 0, 1], np.int32), 5000))
    offsets, values = graph.get_all_many(np.array([4999, 5000, 0], np.uint32))
    assert offsets.tolist() == [0, 3, 3, 6] and values.dtype == np.int32
    assert sorted(values[:3].tolist()) == [-1, 0, 1] == sorted(values[3:].tolist())
    many = np.arange(5000, dtype=np.uint32)
    offsets, values = graph.get_all_many(many)
    assert (np.diff(offsets) == 3).all() and len(values) == 15_000
    assert (graph.count_many(many) == 3).all() and graph.count(7) == 3 and 7 in graph
    assert graph.remove_one(7, -1) and not graph.remove_one(7, -1)
    assert sorted(graph.get_all(7).tolist()) == [0, 1]
    assert graph.remove_all_many([7, 8, 9999]).tolist() == [2, 3, 0]
    assert graph.remove_all(9) == 3 and len(graph) == 15_000 - 9 == len(list(graph))
    for again in (graph.copy(), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert (again.key_type, again.value_type) == ("u32", "i32") and sorted(again) == sorted(graph)
        again.clear()
    assert len(graph) == 15_000 - 9
    graph.clear()
    assert len(graph) == 0 and graph.arrays()[0].dtype == np.uint32


def test_pairs_that_are_there_once():
    graph = nunatak.MultiMap("i16", "f32")
    assert graph.insert_unique(-1, 0.5) and not graph.insert_unique(-1, 0.5) and graph.insert_unique(-1, 1)
    keys = np.repeat(np.arange(-500, 500, dtype=np.int16), 6)
    values = np.tile(np.array([1, 2, 3, 1, 2, 3], np.float32), 1000)
    assert graph.insert_unique_many(keys, values) == 2999 and len(graph) == 3001
    assert graph.insert_unique_many(keys, values, threads=2) == 0
    assert graph.insert_unique_many([], []) == 0
    found, counts = graph.distinct_keys(return_counts=True)
    order = np.argsort(found)
    assert found.dtype == np.int16 and (found[order] == np.arange(-500, 500)).all()
    assert counts[order].tolist() == [3] * 499 + [4] + [3] * 500
    assert (np.sort(graph.distinct_keys()) == np.arange(-500, 500)).all()
    found, offsets, values = graph.groups()
    assert len(found) == 1000 and len(offsets) == 1001 and values.dtype == np.float32
    for at, key in enumerate(found):
        expected = [0.5, 1, 2, 3] if key == -1 else [1, 2, 3]
        assert sorted(values[offsets[at] : offsets[at + 1]].tolist()) == expected
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        graph.insert_unique_many([1, 2], [1])
    graph.clear()
    assert [part.tolist() for part in graph.groups()] == [[], [0], []]
    both = np.arange(10_000) % 100, np.arange(10_000)
    shared = nunatak.MultiMap("i64", "i64")
    with ThreadPoolExecutor(2) as pool:
        added = pool.map(lambda _: shared.insert_unique_many(*both), range(2))
        assert sum(added) == 10_000 == len(shared)


def test_a_map_takes_a_quarter_of_the_memory_of_a_dict():
    """Of its table, in which keys and values are objects of their own."""
    count = 300_000
    keys = np.arange(count)
    plain = dict(zip(keys.tolist(), keys.tolist()))
    objects = [*plain.keys(), *plain.values()]
    of_dict = sys.getsizeof(plain) + sum(sys.getsizeof(each) for each in objects)
    map = nunatak.Map("i64", "i64", table="iceberg", capacity=count)
    map.insert_many(keys, keys)
    assert map.nbytes * 4 < of_dict and map.load_factor > 0.8
