"""Maps in files."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import nunatak

FILES = ["iceberg", "pea", "turbo"]


@pytest.mark.parametrize("table", FILES)
@pytest.mark.parametrize(
    "types, entries",
    [
        (("u64", "i64"), {1: -1, 2**64 - 1: 2}),
        (("str", "f64"), {"a": 0.5, "": 1.0}),
        (("u64", "bytes"), {7: b"x" * 10_000}),
    ],
)
def test_entries_are_there_again(tmp_path, table, types, entries):
    path = tmp_path / "file.map"
    with nunatak.open(path, *types, table=table) as map:
        map.update(entries)
        assert map == entries and not map.closed and map.path == str(path) or map.path == path
        assert map.verify() == len(entries) and map.file_bytes > 0
    assert map.closed
    with nunatak.open(path, *types, mode="r") as map:
        assert map == entries
        with pytest.raises(nunatak.FileError, match="opened to be read"):
            map.clear()
        assert map.backup(tmp_path / "copy.map") == len(entries)
        with pytest.raises(FileExistsError):
            map.backup(tmp_path / "copy.map")
        with pytest.raises(TypeError):
            pickle.dumps(map)
        assert map.copy() == entries and map.copy().path is None
    assert nunatak.open(tmp_path / "copy.map", *types, mode="w") == entries


@pytest.mark.parametrize("table", FILES)
def test_batches_in_files(tmp_path, table):
    keys = np.arange(100_000, dtype=np.uint64)
    with nunatak.open(tmp_path / "file.map", table=table) as map:
        assert map.insert_many(keys, keys * 2) == len(keys)
        assert (map.get_many(keys, 0) == keys * 2).all()
        assert map.add_many(keys[:10]) == 0 and map[3] == 7
        assert map.remove_many(keys[:50_000]) == 50_000 and len(map) == 50_000
    with nunatak.open(tmp_path / "strings.map", "str", "str", table=table) as map:
        map.insert_many(["a", "b"], ["x", "y"])
        assert map.get_many(["b", "c"], None) == ["y", None]


@pytest.mark.parametrize("durability", ["process", "synced"])
def test_levels(tmp_path, durability):
    with nunatak.open(tmp_path / "file.map", durability=durability) as map:
        map[1] = 2
        map.sync()
    with nunatak.open(tmp_path / "file.map", durability="interval", interval=0.01) as map:
        assert map[1] == 2


def test_entries_survive_a_killed_process(tmp_path):
    program = f"""
import nunatak, os, signal
map = nunatak.open({str(tmp_path / "file.map")!r}, "str", "u64")
for number in range(1000):
    map[str(number)] = number
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run([sys.executable, "-c", program])
    assert ran.returncode == -signal.SIGKILL
    with nunatak.open(tmp_path / "file.map", "str", "u64") as map:
        assert map == {str(number): number for number in range(1000)}


def test_a_closed_map_says_so(tmp_path):
    map = nunatak.open(tmp_path / "file.map")
    map[1] = 1
    map.close()
    map.close()
    for use in (
        lambda: map[1],
        lambda: map.__setitem__(1, 1),
        lambda: 1 in map,
        lambda: len(map),
        lambda: list(map),
        lambda: map.get_many([1]),
        lambda: map.insert_many([1], [1]),
        lambda: map.sync(),
        lambda: map.__enter__(),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert "closed" in repr(map)


def test_closing_waits_for_a_batch(tmp_path):
    map = nunatak.open(tmp_path / "file.map", table="turbo")
    keys = np.arange(500_000, dtype=np.uint64)
    stored = []
    begun = threading.Event()

    def store():
        begun.set()
        try:
            stored.append(map.insert_many(keys, keys))
        except ValueError:
            stored.append(0)

    other = threading.Thread(target=store)
    other.start()
    begun.wait()
    map.close()
    other.join()
    with nunatak.open(tmp_path / "file.map") as again:
        assert len(again) == stored[0]


def test_files_that_cannot_be_opened(tmp_path):
    (tmp_path / "text").write_text("not a map")
    with pytest.raises(nunatak.FileError, match="not one of a durable map"):
        nunatak.open(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        nunatak.open(tmp_path / "none", mode="w")
    with pytest.raises(FileNotFoundError):
        nunatak.open(tmp_path / "no" / "folder")
    with nunatak.open(tmp_path / "pea.map", table="pea"):
        with pytest.raises(nunatak.FileError, match="in use"):
            nunatak.open(tmp_path / "pea.map")
    with pytest.raises(nunatak.FileError, match="another kind"):
        nunatak.open(tmp_path / "pea.map", table="turbo")
    with pytest.raises(nunatak.FileError, match="another"):
        nunatak.open(tmp_path / "pea.map", "str", "str")
    assert issubclass(nunatak.FileError, OSError)
    for wrong in (
        {"table": "dlht"},
        {"mode": "x"},
        {"mode": "x", "multi": True},
        {"durability": "always", "multi": True},
        {"durability": "always"},
        {"durability": "interval"},
        {"durability": "interval", "interval": -1},
        {"interval": 1},
    ):
        with pytest.raises(ValueError):
            nunatak.open(tmp_path / "new.map", **wrong)
    with pytest.raises(TypeError):
        nunatak.open(tmp_path / "new.map", "object", "u64")
    assert not (tmp_path / "new.map").exists()


def test_bytes_that_are_no_text_are_an_error(tmp_path):
    with nunatak.open(tmp_path / "file.map", "bytes", "bytes") as map:
        map[b"a"] = b"\xff"
    with nunatak.open(tmp_path / "file.map", "str", "str") as map:
        with pytest.raises(UnicodeDecodeError):
            map["a"]
    with nunatak.open(tmp_path / "file.map", "str", "u64") as map:
        with pytest.raises(ValueError, match="1 bytes"):
            map["a"]


def change_in_child(map, results):
    try:
        map[2] = 2
        results.put("changed")
    except nunatak.FileError as error:
        results.put(str(error))
    results.put(map.get(1))


def test_a_fork_reads_and_does_not_change_a_file(tmp_path):
    fork = multiprocessing.get_context("fork")
    with nunatak.open(tmp_path / "file.map") as map:
        map[1] = 1
        results = fork.Queue()
        child = fork.Process(target=change_in_child, args=(map, results))
        child.start()
        assert "parent of this process" in results.get(timeout=30)
        assert results.get(timeout=30) == 1
        child.join()
        assert map == {1: 1}


def test_a_fork_has_a_copy_of_a_map_in_ram():
    fork = multiprocessing.get_context("fork")
    map = nunatak.Map("u64", "u64", {1: 1})
    results = fork.Queue()
    child = fork.Process(target=change_in_child, args=(map, results))
    child.start()
    assert results.get(timeout=30) == "changed" and results.get(timeout=30) == 1
    child.join()
    assert map == {1: 1}


def test_a_pool_of_processes_opens_the_file_to_read(tmp_path):
    path = os.fspath(tmp_path / "file.map")
    with nunatak.open(path) as map:
        map.insert_many(range(1000), range(1000))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(total, [path] * 4) == [499_500] * 4


def total(path):
    with nunatak.open(path, mode="r") as map:
        return int(map.arrays()[1].sum())


def test_many_values_for_a_key_in_a_file(tmp_path):
    path = tmp_path / "file.map"
    edges = np.random.default_rng(1).integers(0, 500, (2, 20_000))
    with nunatak.open(path, "i64", "i64", multi=True) as map:
        map.insert_many(*edges, threads=2)
        map.insert(1000, -1)
        map.insert(1000, -1)
        assert map.remove_one(1000, -1) and map.count(1000) == 1 and not map.closed
        map.sync()
        assert map.verify() == 20_001 == len(map) and map.file_bytes > 0 and "20001 values" in repr(map)
        assert map.backup(tmp_path / "copy.map") == 20_001
        pairs = np.unique(edges, axis=1).shape[1]
        with nunatak.open(tmp_path / "pairs.map", "i64", "i64", multi=True, durability="synced") as once:
            assert once.insert_unique_many(*edges) == pairs and not once.insert_unique(*edges[:, 0].tolist())
        with nunatak.open(tmp_path / "pairs.map", "i64", "i64", multi=True, mode="r") as once:
            keys, counts = once.distinct_keys(return_counts=True)
            assert len(keys) == len(np.unique(edges[0])) and counts.sum() == pairs == len(once.groups()[2])
    assert map.closed and "closed" in repr(map)
    for use in (
        lambda: map.insert(1, 1),
        lambda: map.insert_many([1], [1]),
        lambda: map.insert_unique(1, 1),
        lambda: map.insert_unique_many([1], [1]),
        lambda: map.distinct_keys(),
        lambda: map.groups(),
        lambda: map.get_all(1),
        lambda: map.get_all_many([1]),
        lambda: map.count_many([1]),
        lambda: map.remove_all(1),
        lambda: len(map),
        lambda: 1 in map,
        lambda: list(map),
        lambda: map.sync(),
        lambda: map.__enter__(),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()
    with nunatak.open(path, "i64", "i64", multi=True, mode="r") as map:
        offsets, values = map.get_all_many(np.arange(500))
        for key in range(500):
            expected = np.sort(edges[1][edges[0] == key])
            assert (np.sort(values[offsets[key] : offsets[key + 1]]) == expected).all()
        for change in (lambda: map.insert(1, 1), lambda: map.insert_many([1], [1]), lambda: map.remove_all(7)):
            with pytest.raises(nunatak.FileError, match="opened to be read"):
                change()
    sure, doubtful, damages = nunatak.salvage(tmp_path / "copy.map", tmp_path / "new.map")
    assert (sure, doubtful, damages) == (20_001, 0, [])
    with nunatak.open(tmp_path / "new.map", "i64", "i64", multi=True, table="pea") as map:
        assert map.remove_all_many([1000, 2000]).tolist() == [1, 0]
        map.clear()
        assert len(map) == 0
    with pytest.raises(nunatak.FileError, match="another kind"):
        nunatak.open(path)
    with nunatak.open(tmp_path / "single.map", table="pea"):
        pass
    with pytest.raises(nunatak.FileError, match="another"):
        nunatak.open(tmp_path / "single.map", multi=True)
    with pytest.raises(ValueError, match="pea"):
        nunatak.open(tmp_path / "other.map", multi=True, table="turbo")
    for key in ("str", "bytes"):
        with pytest.raises(TypeError, match=f"in a file has keys that are numbers, not {key}"):
            nunatak.open(tmp_path / "other.map", key, "u64", multi=True)
    assert not (tmp_path / "other.map").exists()
    ram = nunatak.MultiMap()
    with pytest.raises(TypeError, match="no file"):
        ram.sync()
    with ram as same:
        assert same is ram
    assert not ram.closed and ram.path is None and len(ram) == 0


READER = """
import nunatak, sys
path, key, value, multi = sys.argv[1:]
with nunatak.open(path, key, value, mode="beside", multi=multi == "multi") as map:
    print(sorted(map) if multi == "multi" else sorted(map.items()))
    try:
        map.clear()
    except nunatak.FileError as error:
        print(error)
"""


@pytest.mark.parametrize("table", [*FILES, "multi", "strings"])
def test_a_process_reads_beside_the_writer(tmp_path, table):
    path, types, options = tmp_path / "file.map", ("u64", "u64"), {"table": table}
    if table == "multi":
        options = {"multi": True}
    if table == "strings":
        types, options = ("str", "u64"), {}

    def seen():
        arguments = [sys.executable, "-c", READER, path, *types, table]
        ran = subprocess.run(arguments, capture_output=True, text=True)
        return ran.stdout.splitlines() or [ran.stderr.splitlines()[-1]]

    one = "a" if table == "strings" else 1
    with nunatak.open(path, *types, answer_readers=True, **options) as map:
        map.insert_many([one], [10])
        map.sync()
        lines = seen()
        assert lines[0] == str([(one, 10)]) and "read" in lines[1]
    if table == "iceberg":
        # Its slots change where they are, so only the writer can make a copy.
        with nunatak.open(path, *types) as map:
            assert "in use" in seen()[0]
    with nunatak.open(path, *types, mode="r", answer_readers=True, **options) as map:
        assert len(map) == 1


def test_salvage(tmp_path):
    with nunatak.open(tmp_path / "file.map", table="turbo") as map:
        map.insert_many(range(1000), range(1000))
    sure, doubtful, damages = nunatak.salvage(tmp_path / "file.map", tmp_path / "new.map")
    assert (sure, doubtful, damages) == (1000, 0, [])
    with nunatak.open(tmp_path / "new.map") as map:
        assert len(map) == 1000


def test_a_change_that_waits_for_the_disk_lets_other_threads_run(tmp_path):
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
        with nunatak.open(tmp_path / "file.map", durability="synced") as map:
            other.start()
            begun = turns[0]
            for number in range(20):
                map[number] = number
            seen = turns[0] - begun
    finally:
        ended.set()
        sys.setswitchinterval(before)
    other.join()
    assert seen > 0


def test_a_file_that_is_cut_says_so(tmp_path):
    path = tmp_path / "file.map"
    map = nunatak.open(path, table="iceberg")
    map[1] = 10
    assert map.failure is None
    size = map.file_bytes
    os.truncate(path, size - 4096)
    with pytest.raises(nunatak.FileError, match=str(size)):
        map.sync()
    with pytest.raises(nunatak.FileError):
        map[2] = 20
    assert isinstance(map.failure, nunatak.FileError) and str(size) in str(map.failure)
    os.truncate(path, size)
    with pytest.raises(TypeError, match="no file"):
        nunatak.Map("u64", "u64").failure
