"""Measure Nunatak beside what its users have today: python -m nunatak.bench

Each row is one task on the same keys. Libraries that are not installed are left out.
"""

import argparse
import gc
import importlib
import os
import platform
import sys
import time

import numpy as np

import nunatak

from ._chart import chart, rows_of


def module(name):
    """Import a library, or return None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def back_free_memory(entries):
    """Touch as much memory as a growing map may need, and free it.

    A hypervisor that takes free pages back returns them slowly, and the first library would wait for it.
    """
    np.ones(32 * entries, np.uint64)


def resident():
    """Return how many bytes of memory the process occupies; 0 where that is not known."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Report:
    """Rows as they are measured, and the table at the end."""

    def __init__(self, repetitions):
        self.repetitions = repetitions
        self.rows = []

    def time(self, task, name, count, run, repetitions=None):
        """Run a few times; the row has the best."""
        best = None
        for _ in range(repetitions or self.repetitions):
            gc.collect()
            if task.endswith("insert_many"):
                back_free_memory(count)
            began = time.perf_counter()
            result = run()
            seconds = time.perf_counter() - began
            best = seconds if best is None else min(best, seconds)
            del result
        self.row(task, name, f"{1e9 * best / count:.1f}", "ns/key", best / count)

    def row(self, task, name, figure, unit, order):
        self.rows.append((task, name, figure, unit, order))
        print(f"  {task:24} {name:34} {figure:>10} {unit}", file=sys.stderr, flush=True)

    def print(self):
        """Print the rows, each task's best first."""
        tasks = list(dict.fromkeys(row[0] for row in self.rows))
        print("| task | library | figure | unit |\n|---|---|--:|---|")
        for task in tasks:
            for row in sorted((row for row in self.rows if row[0] == task), key=lambda row: row[4]):
                print("| {} | {} | {} | {} |".format(*row[:4]))


def lookups(report, count, asked, threads, rng):
    keys = rng.permutation(np.arange(count, dtype=np.int64) * 2)
    values = rng.integers(0, 1 << 60, count)
    hits = rng.choice(keys, asked)
    hits[::10] += 1  # One in ten is absent.
    memory = {}

    def made(name, make):
        gc.collect()
        before = resident()
        result = make()
        gc.collect()
        memory[name] = (resident() - before) / count
        return result

    def filled(table, capacity=0):
        map = nunatak.Map("i64", "i64", table=table, capacity=capacity)
        map.insert_many(keys, values)
        return map

    tables = {}
    for table in ("dlht", "iceberg"):
        name = f"nunatak {table}"
        report.time("insert_many", name, count, lambda table=table: filled(table), 1)
        tables[table] = made(name, lambda table=table: filled(table))
    made("nunatak iceberg, capacity given", lambda: filled("iceberg", count))
    out, mask = np.zeros(asked, np.int64), np.zeros(asked, bool)
    for table, one in tables.items():
        for number in threads:
            name = f"nunatak {table}, {number} thread{'s' * (number > 1)}"
            report.time(
                "get_many",
                name,
                asked,
                lambda one=one, number=number: one.get_many(hits, out=out, mask=mask, threads=number),
            )

    def sort():
        order = np.argsort(keys)
        return keys[order], values[order]

    report.time("insert_many", "numpy, sort", count, sort, 1)
    ordered, by_key = made("numpy, sorted arrays", sort)

    def search():
        at = np.searchsorted(ordered, hits)
        found = ordered[np.minimum(at, count - 1)] == hits
        return by_key[np.minimum(at, count - 1)], found

    report.time("get_many", "numpy.searchsorted", asked, search, 1)
    del ordered, by_key
    if pandas := module("pandas"):
        def index():
            index = pandas.Index(keys)
            index.get_indexer(hits[:1])
            return index

        report.time("insert_many", "pandas.Index", count, index, 1)
        index = made("pandas.Index", index)

        def get():
            at = index.get_indexer(hits)
            return values[at], at >= 0

        report.time("get_many", "pandas.Index.get_indexer", asked, get)
        del index
    if polars := module("polars"):
        left = polars.DataFrame({"key": hits})
        right = polars.DataFrame({"key": keys, "value": values})
        join = lambda: left.join(right, on="key", how="left", maintain_order="left")
        report.time("get_many", f"polars join, {polars.thread_pool_size()} threads", asked, join, 1)
        del left, right
    if pyarrow := module("pyarrow"):
        left = pyarrow.table({"key": hits})
        right = pyarrow.table({"key": keys, "value": values})
        join = lambda: left.join(right, "key", join_type="left outer", use_threads=False)
        report.time("get_many", "pyarrow join, 1 thread", asked, join, 1)
        del left, right
    if hirola := module("hirola"):
        def fill():
            table = hirola.HashTable(count * 3 // 2, np.int64)
            table.add(keys)
            return table

        report.time("insert_many", "hirola", count, fill, 1)
        table = made("hirola", fill)
        report.time("get_many", "hirola", asked, lambda: table.get(hits), 1)
        del table

    fill = lambda: dict(zip(keys.tolist(), values.tolist()))
    report.time("insert_many", "dict", count, fill, 1)
    plain = made("dict", fill)
    listed = hits.tolist()
    report.time("get_many", "dict, list of its gets", asked, lambda: list(map(plain.get, listed)), 1)
    single(report, "single gets, random", {"dict": plain, **prefixed(tables)}, listed[:1_000_000])
    # What a call into the library costs before it does anything.
    calls = min(asked, 1_000_000)

    def call(nothing=tables["dlht"].reclaim):
        for _ in range(calls):
            nothing()

    report.time("single gets, random", "nunatak, a call without work", calls, call)
    del plain, tables
    for name, each in memory.items():
        report.row("memory", name, f"{each:.0f}", "bytes/entry", each)


def prefixed(tables):
    return {f"nunatak {name}": one for name, one in tables.items()}


def single(report, task, maps, keys):
    for name, one in maps.items():
        def gets(get=one.get):
            for key in keys:
                get(key)

        report.time(task, f"{name}.get", len(keys), gets)


def strings(report, count, rng):
    keys = [f"user-{number:08}" for number in rng.permutation(count)]
    plain, map = {}, nunatak.Map("str", "i64")
    report.time("str: insert_many", "dict", count, lambda: plain.update(zip(keys, range(count))), 1)
    numbers = np.arange(count)
    report.time("str: insert_many", "nunatak", count, lambda: map.insert_many(keys, numbers), 1)
    asked = [keys[at] for at in rng.integers(0, count, count)]
    report.time("str: get_many", "dict, list of its gets", count, lambda: [plain.get(key) for key in asked], 1)
    report.time("str: get_many", "nunatak", count, lambda: map.get_many(asked), 1)
    column = nunatak.Column._of_strings(asked, "str")
    report.time("str: get_many", "nunatak, an Arrow column", count, lambda: map.get_many(column), 1)
    report.time("str: factorize", "nunatak, a list", count, lambda: nunatak.factorize(asked), 1)
    report.time("str: factorize", "nunatak, an Arrow column", count, lambda: nunatak.factorize(column), 1)
    if pandas := module("pandas"):
        array = np.array(asked, dtype=object)
        report.time("str: factorize", "pandas", count, lambda: pandas.factorize(array), 1)
    if polars := module("polars"):
        series = polars.Series(asked)
        name = f"polars, {polars.thread_pool_size()} threads"
        report.time("str: factorize", name, count, lambda: series.unique(maintain_order=True), 1)
    # Few keys are asked for again and again, so that a run is long enough to be timed.
    again = asked[:500_000] * max(1, 200_000 // count)
    single(report, "str: single gets", {"dict": plain, "nunatak": map}, again)


def analysis(report, count, rng):
    keys = rng.integers(0, count // 4, count)
    right = rng.permutation(count)[: count // 2]
    report.time("factorize", "nunatak", count, lambda: nunatak.factorize(keys))
    report.time("join", "nunatak", count, lambda: nunatak.join(keys, right))
    report.time("isin", "nunatak", count, lambda: nunatak.isin(keys, right))
    report.time("isin", "numpy", count, lambda: np.isin(keys, right))
    report.time("factorize", "numpy.unique", count, lambda: np.unique(keys, return_inverse=True), 1)
    if pandas := module("pandas"):
        report.time("factorize", "pandas", count, lambda: pandas.factorize(keys))
        left, other = pandas.DataFrame({"key": keys}), pandas.DataFrame({"key": right})
        report.time("join", "pandas.merge", count, lambda: left.merge(other, on="key"), 1)
        series, among = pandas.Series(keys), pandas.Series(right)
        report.time("isin", "pandas", count, lambda: series.isin(among))
    if polars := module("polars"):
        left, other = polars.DataFrame({"key": keys}), polars.DataFrame({"key": right})
        name = f"polars, {polars.thread_pool_size()} threads"
        report.time("join", name, count, lambda: left.join(other, on="key"))


def main():
    parser = argparse.ArgumentParser(prog="python -m nunatak.bench", description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000_000, help="entries of a map")
    parser.add_argument("--lookups", type=int, default=10_000_000, help="keys that are looked up")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=3, help="the best of them is told")
    parser.add_argument("--quick", action="store_true", help="few entries: to see that it runs")
    parser.add_argument("--parts", nargs="*", default=["lookups", "strings", "analysis"])
    parser.add_argument("--chart", metavar="SVG", help="also draw the rows into this file")
    parser.add_argument("--drawn", metavar="TABLE", help="draw what an earlier run has printed, and measure nothing")
    arguments = parser.parse_args()
    if arguments.drawn:
        with open(arguments.drawn, encoding="utf-8") as table:
            draw(rows_of(table.read()), arguments.chart or "bench.svg")
        return
    if arguments.quick:
        arguments.entries = arguments.lookups = 20_000
    report, rng = Report(arguments.repetitions), np.random.default_rng(1)
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, nunatak {nunatak.__version__}, "
        f"{arguments.entries:,} entries, {os.cpu_count()} processors\n"
    )
    if "lookups" in arguments.parts:
        lookups(report, arguments.entries, arguments.lookups, arguments.threads, rng)
    if "strings" in arguments.parts:
        strings(report, max(1000, arguments.entries // 10), rng)
    if "analysis" in arguments.parts:
        analysis(report, arguments.entries, rng)
    report.print()
    if arguments.chart:
        draw([(task, name, float(figure), unit) for task, name, figure, unit, _ in report.rows], arguments.chart)


def draw(rows, path):
    with open(path, "w", encoding="utf-8") as file:
        file.write(chart(rows))


if __name__ == "__main__":
    main()
