"""Texts without a store: :func:`consolidate` and its result."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _memfold
from ._errors import InputError
from ._vectors import _float32, _shown


@dataclass(frozen=True)
class Group:
    """Texts that belong together, by their positions; of a merge the survivor comes first."""

    rows: tuple[int, ...]
    #: The cosine similarity of the vectors; None where equal texts need none.
    similarity: float | None
    #: The steps of the proof, or what differs, in words.
    differences: tuple[str, ...]
    #: Of a proposal: how probable it is that all say the same; they come in this order.
    probability: float | None = None


@dataclass(frozen=True)
class Consolidation:
    """What :func:`consolidate` found. Rows are positions in what was handed in."""

    #: The rows that stay, ascending.
    selected: list[int]
    #: Proven duplicates: the first row of each stays.
    merged: tuple[Group, ...]
    #: Pairs that cannot both hold; both stay.
    conflicts: tuple[Group, ...]
    #: Texts that may say the same, which nothing proves; all stay.
    proposals: tuple[Group, ...]
    #: What the command line shows.
    summary: str

    def __repr__(self) -> str:
        return self.summary


def consolidate(
    texts: Iterable[str | Mapping[str, Any]],
    *,
    vectors: Any = None,
    users: Iterable[str] | None = None,
    threshold: float | None = None,
    progress: bool = False,
) -> Consolidation:
    """Finds texts that say the same, without a store, a model or a network.

    Args:
        texts: Texts, or records with a text and, where they have them, ``user_id``, ``created_at``,
            ``categories``, ``vector`` and ``model``. Records without a vector are compared by the
            built-in embedding.
        vectors: The vector of each text, of shape ``(texts, dim)``. Rows without a direction (NaN,
            infinite, all zeros) count as texts without a vector.
        users: The user of each text: memories of two users never merge.
        threshold: The cosine similarity from which proven duplicates merge; by default 0.85.
        progress: Show progress, where tqdm is installed.

    Raises:
        InputError: For something that is neither a text nor a record, or no text at all.

    Examples:
        >>> notes = ["Deploys every Friday", "Release is on Oct 15th", "Deploys every Friday.",
        ...          "Release is on Oct 16th"]
        >>> found = memfold.consolidate(notes)
        >>> [notes[row] for row in found.selected]
        ['Release is on Oct 15th', 'Deploys every Friday.', 'Release is on Oct 16th']
        >>> found.conflicts[0].rows
        (1, 3)
    """
    records = [dict(text) if isinstance(text, Mapping) else {"text": text} for text in texts]
    if not records:
        raise InputError("no texts", "hand in a list of texts")
    columns: dict[str, list[Any]] = {}
    if users is not None:
        columns["user_id"] = list(users)
    if vectors is not None:
        array = _float32(vectors)[0]
        if array.ndim != 2:
            raise InputError(f"vectors of shape {array.shape}", "pass one row for each text")
        usable = np.isfinite(array).all(axis=1) & array.any(axis=1)
        columns["vector"] = [row.tolist() if use else None for row, use in zip(array, usable)]
    for name, column in columns.items():
        if len(column) != len(records):
            kind = "users" if name == "user_id" else "vectors"
            raise InputError(f"{len(column)} {kind} of {len(records)} texts", "give one for each")
        for record, value in zip(records, column, strict=True):
            record[name] = value
    lines = []
    for row, record in enumerate(records):
        # Positions are what the result names.
        record["id"] = str(row)
        try:
            lines.append(json.dumps(record))
        except (TypeError, ValueError) as error:
            raise InputError(f"row {row}: {error}", "hand in texts or records of JSON") from None
    with _shown(progress) as shown:
        native = _memfold.consolidate_texts("\n".join(lines).encode(), threshold, shown)
    found = json.loads(native)
    groups = {
        kind: tuple(
            Group(
                tuple(map(int, group["ids"])),
                group["similarity"],
                tuple(group["differences"]),
                group["probability"],
            )
            for group in found[kind]
        )
        for kind in ("merged", "conflicts", "proposals")
    }
    removed = {row for group in groups["merged"] for row in group.rows[1:]}
    selected = [row for row in range(len(records)) if row not in removed]
    return Consolidation(selected=selected, summary=found["summary"], **groups)
