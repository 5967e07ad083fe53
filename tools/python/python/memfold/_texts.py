"""Texts without a store: :func:`consolidate` and its result."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from . import _memfold
from ._errors import InputError
from ._vectors import _float32, _shown, _usable

#: So many groups of a kind a notebook shows.
SHOWN_MAX = 20


@dataclass(frozen=True)
class Group:
    """Texts that belong together, by their positions; of a merge the survivor comes first."""

    rows: tuple[int, ...]
    #: Their ids: what was handed in as ``ids`` or stands in the records, else the positions as texts.
    ids: tuple[str, ...]
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
    #: The ids of the rows that stay.
    selected_ids: list[str]
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

    def _repr_html_(self) -> str:
        kinds = (("merged", self.merged), ("conflict", self.conflicts), ("proposal", self.proposals))
        body = "".join(
            f"<tr><td>{kind}<td>{escape(', '.join(group.ids))}<td>"
            f"{'' if group.similarity is None else f'{group.similarity:.3f}'}"
            f"<td>{escape('; '.join(group.differences))}"
            for kind, groups in kinds
            for group in groups[:SHOWN_MAX]
        )
        head = "<tr><th>what<th>ids<th>similarity<th>proof or difference"
        return f"<pre>{escape(self.summary)}</pre><table>{head}{body}</table>"


def consolidate(
    texts: Iterable[str | Mapping[str, Any]],
    *,
    vectors: Any = None,
    ids: Iterable[Any] | None = None,
    users: Iterable[str] | None = None,
    reference: Iterable[str | Mapping[str, Any]] | None = None,
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
        ids: The id of each text, by which groups name it; by default the ``id`` of its record.
        users: The user of each text: memories of two users never merge.
        reference: Texts or records that are kept already: a text that is proven to say the same as
            one of them leaves. In groups, rows from ``len(texts)`` on are those of the reference.
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
    records, kept = _records(texts), _records(reference or ())
    if not records:
        raise InputError("no texts", "hand in a list of texts")
    columns: dict[str, list[Any]] = {}
    if ids is not None:
        columns["id"] = list(ids)
    if users is not None:
        columns["user_id"] = list(users)
    if vectors is not None:
        array = _float32(vectors)[0]
        if array.ndim != 2:
            raise InputError(f"vectors of shape {array.shape}", "pass one row for each text")
        rows = zip(array, _usable(array))
        columns["vector"] = [row.tolist() if use else None for row, use in rows]
    for name, column in columns.items():
        if len(column) != len(records):
            kind = {"id": "ids", "user_id": "users", "vector": "vectors"}[name]
            raise InputError(f"{len(column)} {kind} of {len(records)} texts", "give one for each")
        for record, value in zip(records, column, strict=True):
            record[name] = value
    lines, names = [], []
    for row, record in enumerate(records + kept):
        # The result names positions.
        names.append(str(record.get("id", row)))
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
                rows := tuple(map(int, group["ids"])),
                tuple(names[row] for row in rows),
                group["similarity"],
                tuple(group["differences"]),
                group["probability"],
            )
            for group in found[kind]
        )
        for kind in ("merged", "conflicts", "proposals")
    }
    removed = set()
    for group in groups["merged"]:
        is_kept = any(row >= len(records) for row in group.rows)
        removed.update(group.rows if is_kept else group.rows[1:])
    selected = [row for row in range(len(records)) if row not in removed]
    selected_ids = [names[row] for row in selected]
    return Consolidation(selected, selected_ids, summary=found["summary"], **groups)


def _records(texts: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(text) if isinstance(text, Mapping) else {"text": text} for text in texts]
