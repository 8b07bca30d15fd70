"""Concurrent hash maps at the speed of memory, in RAM and in files.

>>> import numpy as np, nunatak
>>> m = nunatak.Map("u64", "u64")
>>> m.insert_many(np.arange(1000), np.arange(1000) ** 2)
1000
>>> values, found = m.get_many(np.array([7, 5000]))
>>> values.tolist(), found.tolist()
([49, 0], [True, False])
"""

from ._analysis import Deduplicator, factorize, isin, join, unique, value_counts
from ._maps import Map, Set, open
from ._multimap import MultiMap
from ._native import Column, FileError, __version__, salvage

__all__ = [
    "Column",
    "Deduplicator",
    "FileError",
    "Map",
    "MultiMap",
    "Set",
    "__version__",
    "factorize",
    "isin",
    "join",
    "open",
    "salvage",
    "unique",
    "value_counts",
]
