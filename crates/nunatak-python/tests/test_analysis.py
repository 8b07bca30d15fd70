"""Codes, counts, joins: against what NumPy says."""

import doctest
import importlib

import numpy as np
import pytest

import nunatak

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64, np.float64, "datetime64[s]"])
@pytest.mark.parametrize("size", [0, 1, 100, 20_000])
def test_factorize_and_counts(dtype, size):
    values = RANDOM.integers(0, 200, size).astype(np.int64).astype(dtype)
    codes, distinct = nunatak.factorize(values)
    assert (distinct[codes] == values).all() and distinct.dtype == values.dtype
    _, first = np.unique(values, return_index=True)
    assert (distinct == values[np.sort(first)]).all()
    assert (nunatak.unique(values) == distinct).all()
    keys, counts = nunatak.value_counts(values)
    expected = dict(zip(*(side.tolist() for side in np.unique(values, return_counts=True))))
    assert dict(zip(keys.tolist(), counts.tolist())) == expected
    assert (np.diff(counts) <= 0).all()


def pairs(left, right, how):
    found = [(a, b) for a in range(len(left)) for b in range(len(right)) if left[a] == right[b]]
    if how in ("left", "outer"):
        found += [(a, -1) for a in range(len(left)) if left[a] not in right]
    if how in ("right", "outer"):
        found += [(-1, b) for b in range(len(right)) if right[b] not in left]
    return sorted(found)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (60, 40), (200, 7)])
@pytest.mark.parametrize("is_unique", [False, True])
def test_joins_find_all_pairs(how, sizes, is_unique):
    def side(size):
        return RANDOM.permutation(300)[:size] if is_unique else RANDOM.integers(0, 30, size)

    left, right = side(sizes[0]), side(sizes[1])
    lefts, rights = nunatak.join(left, right, how)
    assert sorted(zip(lefts.tolist(), rights.tolist())) == pairs(left, right, how)
    if how in ("inner", "left"):
        assert (np.diff(lefts) >= 0).all()


def test_a_large_join():
    left, right = RANDOM.integers(0, 30_000, 100_000), RANDOM.integers(0, 30_000, 50_000)
    lefts, rights = nunatak.join(left, right)
    assert (left[lefts] == right[rights]).all()
    counts = np.bincount(right, minlength=30_000)
    assert len(lefts) == counts[left].sum()
    assert len(np.unique(np.stack([lefts, rights]), axis=1)[0]) == len(lefts)


def test_isin_and_types():
    values, among = RANDOM.integers(0, 1000, 5000), RANDOM.integers(0, 1000, 300)
    assert (nunatak.isin(values, among) == np.isin(values, among)).all()
    assert nunatak.isin(np.array([1, 2], np.int32), np.array([2], np.uint8)).tolist() == [False, True]
    assert nunatak.isin([1.5, 2], [2]).tolist() == [False, True]
    assert nunatak.isin([], [1]).tolist() == [] and nunatak.isin([1], []).tolist() == [False]
    with pytest.raises(TypeError, match="no type has"):
        nunatak.isin(np.array([1], np.int64), np.array([1], np.uint64))
    for wrong in ([object()], [None], np.zeros((2, 2))):
        with pytest.raises((TypeError, ValueError)):
            nunatak.factorize(wrong)
    with pytest.raises(ValueError, match="inner, left, right or outer"):
        nunatak.join([1], [1], "cross")


def test_deduplication_over_batches():
    seen, all_keys, kept = nunatak.Deduplicator("u64"), [], []
    for _ in range(20):
        keys = RANDOM.integers(0, 3000, 1000).astype(np.uint64)
        kept.append(keys[seen.add(keys)])
        all_keys.append(keys)
    kept, all_keys = np.concatenate(kept), np.concatenate(all_keys)
    assert (np.sort(kept) == np.unique(all_keys)).all() and len(seen) == len(kept)


@pytest.mark.parametrize("name", ["nunatak", "nunatak._maps", "nunatak._multimap", "nunatak._columns", "nunatak._analysis", "nunatak._chart", "nunatak._native"])
def test_examples_of_the_documentation(name):
    module = importlib.import_module(name)
    extra = {name: name for name in ()}
    result = doctest.testmod(module, extraglobs={**vars(nunatak), **extra, "np": np})
    assert result.failed == 0
    if name == "nunatak._native":
        finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
        for owner in (module.Map, module.MultiMap, module.Column):
            for method in vars(owner).values():
                for example in finder.find(method, getattr(method, "__name__", "?"), module=False, globs={}):
                    runner.run(example)
        assert runner.summarize().failed == 0 and runner.summarize().attempted > 10


def test_the_stubs_name_what_there_is():
    """Every public name is in the stubs, and every name in the stubs exists."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(nunatak.__file__).with_name("__init__.pyi").read_text())
    told = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert set(told) | {"__version__"} == set(nunatak.__all__)
    for name in ("Map", "Set", "MultiMap", "Deduplicator", "Column"):
        methods = {node.name for node in told[name].body if isinstance(node, ast.FunctionDef)}
        real = {method for method in dir(getattr(nunatak, name)) if not method.startswith("_")}
        own = {method for method in methods if not method.startswith("_")}
        assert own <= real
        inherited = {"items", "keys", "values", "get", "pop", "popitem", "setdefault", "update", "clear"}
        inherited |= {"remove", "isdisjoint"}
        assert real - own <= inherited, (name, real - own - inherited)


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    import re
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 4
    for block in blocks:
        names = {}
        exec(block, names)
        if "prices" in names:
            assert names["values"].tolist() == [3.5, 0] and names["found"].tolist() == [True, False]
        if "column" in names:
            assert names["column"].tolist() == ["Tokyo", None]
        if "left" in names:
            assert names["left"].tolist() == [0, 1, 2] and names["right"].tolist() == [2, 0, 2]


def test_columns_of_other_libraries():
    for name, column in (
        ("pandas", lambda library: library.Series([1, 2, 9])),
        ("polars", lambda library: library.Series([1, 2, 9])),
        ("pyarrow", lambda library: library.array([1, 2, 9])),
    ):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        map = nunatak.Map("i64", "i64", {1: 10, 2: 20})
        assert map.get_many(column(library), -1).tolist() == [10, 20, -1]
        assert nunatak.isin(column(library), [9]).tolist() == [False, False, True]
        names = nunatak.Map("str", "i64", {"a": 1})
        strings = library.array(["a", "b"]) if name == "pyarrow" else library.Series(["a", "b"])
        assert names.get_many(strings, 0).tolist() == [1, 0]
