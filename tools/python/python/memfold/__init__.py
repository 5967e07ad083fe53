"""Finds vectors and memories that say the same thing, and merges memories without losing a fact.

* :func:`consolidate` finds texts that say the same, from texts alone.
* :func:`deduplicate` finds near-duplicates among vectors: numpy, Arrow, polars, torch, or files.
* :class:`Index` finds the nearest vectors; :func:`representatives` and :func:`outliers` choose rows.
* :class:`Memory` is a store of memories (``brain.db``): check, save, search, recall, plan, undo.
* :func:`compare` says what two texts have in common and in what they differ.
* ``memfold.ray`` runs the join of :func:`deduplicate` on a Ray cluster (``pip install memfold[ray]``).

Everything runs in this process. Long work releases the interpreter's lock and stops soon
after Ctrl-C.
"""

from importlib.metadata import version

from ._errors import Error, InputError, RefusedError, StoreError
from ._memfold import Table
from ._memory import Check, Comparison, Found, Match, Memory, Pair, Plan, Run, Saved, compare
from ._texts import Consolidation, Group, consolidate
from ._vectors import Deduplication, Index, deduplicate, outliers, representatives

__all__ = [
    "Check",
    "Comparison",
    "Consolidation",
    "Deduplication",
    "Error",
    "Found",
    "Group",
    "Index",
    "InputError",
    "Match",
    "Memory",
    "Pair",
    "Plan",
    "RefusedError",
    "Run",
    "Saved",
    "StoreError",
    "Table",
    "compare",
    "consolidate",
    "deduplicate",
    "outliers",
    "representatives",
]


__version__ = version("memfold")


def __getattr__(name: str):
    # Ray takes a second to import and may not be installed.
    if name == "ray":
        from importlib import import_module

        return import_module(".ray", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
