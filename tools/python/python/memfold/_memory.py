"""Stores of memories, and the fact guard."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _memfold
from ._errors import InputError
from ._vectors import _float32, _shown


@dataclass(frozen=True)
class Pair:
    """A step of a proof, or a difference: what stands in both texts, and of which kind it is."""

    kind: str
    left: str
    right: str


@dataclass(frozen=True)
class Comparison:
    """What the fact guard says of two texts."""

    #: ``same`` or ``extends`` (proven), ``undecided``, ``different`` or ``conflict``.
    verdict: str
    #: Which text says more, ``a`` or ``b``; None where neither is proven to.
    longer: str | None
    #: Why they say the same, in the order of the texts; empty where nothing is proven.
    proof: tuple[Pair, ...]
    #: In what they differ; empty where they say the same.
    differences: tuple[Pair, ...]
    #: How contradictory they are, from 0 to 1.
    contradiction_score: float
    #: Whether the first could be merged into the second without losing a fact.
    mergeable: bool


def compare(a: str, b: str) -> Comparison:
    """Compares two texts, the older one first: do they say the same, more, other, the opposite?

    Examples:
        >>> memfold.compare("The port is 8080.", "The port is 8081.").differences
        (Pair(kind='number', left='8080', right='8081'),)
        >>> memfold.compare("The port is 8080.", "The port is 8080").verdict
        'same'
    """
    found = json.loads(_memfold.compare(a, b))
    for key in ("proof", "differences"):
        found[key] = tuple(Pair(**pair) for pair in found[key])
    return Comparison(**found)


@dataclass(frozen=True)
class Match:
    """A memory that is like one that was checked."""

    id: str
    #: The cosine similarity of the vectors; None where there are not two.
    similarity: float | None
    #: What the fact guard says, as :attr:`Comparison.verdict`; None without a text.
    verdict: str | None
    #: What differs, in words.
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """What should be done with a memory."""

    #: ``insert``, ``touch`` (known already), ``touch_and_flag``, ``replace`` or ``insert_and_flag``.
    decision: str
    #: Why, in words.
    reason: str
    #: The nearest memories, at most 100.
    matches: tuple[Match, ...]
    #: Whether everything was looked through that could be.
    checked: bool
    #: ``full``, ``exact_only`` (texts alone) or ``none``.
    coverage: str
    #: What a user should know: why something was not looked through.
    notes: tuple[str, ...]
    #: How long it took, in microseconds.
    elapsed_us: int


@dataclass(frozen=True)
class Saved:
    """What a save did."""

    #: The memory that says it now.
    id: str
    #: ``inserted``, ``touched`` or ``replaced``.
    written: str
    #: The memories whose place it took.
    replaced: tuple[str, ...]
    #: The run that :meth:`Memory.undo` takes back; None where no memory was replaced.
    run_id: str | None
    #: What the check said.
    check: Check


@dataclass(frozen=True)
class Found:
    """A memory that was found."""

    id: str
    text: str
    categories: tuple[str, ...]
    importance: float
    source: str
    #: The cosine similarity to the query; None where words found it.
    similarity: float | None
    #: Of a recall: what the answer is ordered by.
    score: float | None = None
    #: Of a recall: ``hot``, ``warm``, ``cold`` or ``archived``.
    tier: str | None = None


@dataclass(frozen=True)
class Run:
    """What a run did to a store. Units are memories that change together."""

    run_id: str
    #: ``done``, ``partial``, ``interrupted`` or ``failed``.
    state: str
    #: Units that were applied, or undone.
    applied: int
    #: Units that were left as they are, because a memory had changed since.
    stale: int
    #: Units that the store refused.
    failed: int
    #: Units that were not tried.
    remaining: int
    #: What a user should know.
    notes: tuple[str, ...]


class Plan:
    """What should become of near memories. Nothing is written before :meth:`apply`."""

    def __init__(self, native: _memfold.Plan) -> None:
        self._native = native

    @property
    def digest(self) -> str:
        """The digest of the plan's actions: what :meth:`apply` expects after a look at the plan."""
        return self._native.digest

    @property
    def actions(self) -> _memfold.Table:
        """One row for each action: ``label``, ``type``, ``survivor``, ``ids``, ``similarity``,
        ``risk``, ``rule`` and ``reasons``. Of type ``noop`` is what stays, with the reason."""
        return self._native.actions

    def summary(self) -> str:
        """Returns what was found and would be done, for people."""
        return self._native.summary()

    def apply(self, *, expect: str | None = None, progress: bool = False) -> Run:
        """Applies the plan. Each unit is one transaction, journaled, and can be undone.

        Args:
            expect: The digest of the plan that somebody looked at. Without it, a plan that changes
                much of the store is refused.
            progress: Show progress, where tqdm is installed.

        Raises:
            RefusedError: When the plan is another one, nobody looked at a plan that changes much, or
                the configuration forbids writing. Nothing was written.
            StoreError: When the store cannot be written, or another run holds it.
        """
        with _shown(progress) as shown:
            return _run(self._native.apply(expect, shown))

    def __len__(self) -> int:
        """The number of actions that change the store."""
        return self._native.change_count

    def __repr__(self) -> str:
        return f"<memfold.Plan: {len(self)} changes, digest {self.digest}>"


class Memory:
    """A store of memories, ``brain.db``, that stays open; may be shared between threads.

    The configuration is the command line's: its files, the environment, and ``memfold.yaml`` beside
    the store. Vectors are made by you: pass the vector of the text where there is one.

    Raises:
        StoreError: When the store is missing, or of another kind.
        InputError: When the configuration is not valid.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _memfold.Memory(os.fspath(path))

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Memory:
        """Makes an empty store and opens it.

        Raises:
            StoreError: When something is there already, or the file cannot be written.
        """
        _memfold.Memory.create(os.fspath(path))
        return cls(path)

    @property
    def path(self) -> str:
        """The store's file."""
        return os.fspath(self._native.path)

    def check(
        self,
        text: str | None = None,
        *,
        vector: Any = None,
        model: str | None = None,
        categories: Iterable[str] = (),
    ) -> Check:
        """Says what a save would do with a memory; writes nothing.

        Args:
            text: What it says.
            vector: The vector of the text, of shape ``(dim,)``. Without one, only equal texts are
                found.
            model: The model that made the vector; by default the store's.
            categories: Its categories.

        Raises:
            InputError: When there is neither text nor vector, or the vector has no direction.
        """
        return _check(json.loads(self._native.check(_new(text, vector, model, categories))))

    def save(
        self,
        text: str,
        *,
        vector: Any = None,
        model: str | None = None,
        categories: Iterable[str] = (),
        importance: float | None = None,
        source: str | None = None,
        id: str | None = None,
    ) -> Saved:
        """Remembers a memory unless it is known already; it is on disk when this returns.

        Args:
            text: What it says.
            vector: As in :meth:`check`.
            model: As in :meth:`check`.
            categories: Its categories.
            importance: By default 1.0.
            source: Where it comes from; by default ``agent``.
            id: The id it shall have; saving it again under the same id changes nothing.

        Raises:
            InputError: When there is no text, or the id is another memory's.
            RefusedError: When the configuration forbids writing.
            StoreError: When the store cannot be written; it is then as it was.
        """
        memory = _new(text, vector, model, categories)
        memory.update(importance=importance, source=source, id=id)
        saved = json.loads(self._native.save(memory))
        return Saved(
            id=saved["id"],
            written=saved["written"],
            replaced=tuple(saved["replaced"]),
            run_id=saved["run_id"],
            check=_check(saved),
        )

    def search(
        self,
        text: str | None = None,
        *,
        vector: Any = None,
        id: str | None = None,
        limit: int = 10,
        threshold: float | None = None,
    ) -> list[Found]:
        """Returns the live memories nearest to one of text, vector and id, best first.

        Args:
            text: A text: by the vector of the memory that has it, else by its words.
            vector: A vector of shape ``(dim,)``.
            id: A memory's id; it is no result itself.
            limit: At most so many.
            threshold: Only those at least so similar.

        Raises:
            InputError: When not one of the three is given, no memory has the id, no word of the text
                is known, or the vector has another dimension.
        """
        found = self._native.search(text, _vector(vector), id, _limit(limit), threshold)
        return _found(found)

    def recall(
        self,
        question: str,
        *,
        vector: Any = None,
        mode: str = "standard",
        limit: int = 10,
        count: bool = True,
    ) -> list[Found]:
        """Returns the memories that answer a question, by words and, with its vector, by similarity.

        Args:
            question: What is asked.
            vector: The vector of the question, of shape ``(dim,)``.
            mode: How far down the tiers to look: ``reflexive``, ``standard``, ``deep`` or
                ``exhaustive``.
            limit: At most so many.
            count: Count the memories as read.

        Raises:
            InputError: For another mode or dimension.
        """
        found = self._native.recall(question, _vector(vector), mode, _limit(limit), count)
        return _found(found)

    def plan(
        self,
        threshold: float | None = None,
        *,
        threads: int | None = None,
        progress: bool = False,
    ) -> Plan:
        """Finds memories that say the same thing and plans what to do; writes nothing.

        Args:
            threshold: The cosine similarity from which memories may be merged; by default the
                configuration's.
            threads: Worker threads; by default one for each core.
            progress: Show progress, where tqdm is installed.

        Raises:
            InputError: For a threshold out of range.
            StoreError: When the store cannot be read.
        """
        with _shown(progress) as shown:
            return Plan(self._native.plan(threshold, threads, shown))

    def undo(self, run: Run | Saved | str = "latest") -> Run:
        """Takes a run back: what was changed since stays as it is, and is counted as stale.

        Args:
            run: What :meth:`Plan.apply` or :meth:`save` returned, or a run's id; ``latest`` is the
                last run that is no save and no undo and has something to take back.

        Raises:
            StoreError: When there is no such run.
        """
        run_id = run if isinstance(run, str) else run.run_id
        if run_id is None:
            hint = "it added a memory or counted one that was there; replacements can be undone"
            raise InputError("this save has nothing to undo", hint)
        return _run(self._native.undo(run_id))

    def __repr__(self) -> str:
        return f"<memfold.Memory: {self.path}>"


def _vector(vector: Any) -> list[float] | None:
    if vector is None:
        return None
    array = _float32(vector)[0]
    if array.ndim != 1:
        raise InputError(
            f"expected a vector of shape (dim,), found shape {array.shape}",
            "pass one vector, such as vectors[0]",
        )
    return array.tolist()


def _new(
    text: str | None, vector: Any, model: str | None, categories: Iterable[str]
) -> dict[str, Any]:
    if isinstance(categories, str):
        raise InputError("categories is one text", f"pass a list: [{categories!r}]")
    return {
        "text": text,
        "vector": _vector(vector),
        "model": model,
        "categories": list(categories),
        "importance": None,
        "source": None,
        "id": None,
    }


def _limit(limit: int) -> int:
    if limit < 1:
        raise InputError(f"limit is {limit}", "ask for at least 1 memory")
    return limit


def _check(found: dict[str, Any]) -> Check:
    matches = (
        Match(one["id"], one["similarity"], one["verdict"], tuple(one["differences"]))
        for one in found["matches"]
    )
    return Check(
        decision=found["decision"],
        reason=found["reason"],
        matches=tuple(matches),
        checked=found["checked"],
        coverage=found["coverage"],
        notes=tuple(found["notes"]),
        elapsed_us=found["elapsed_us"]["total"],
    )


def _found(answer: str) -> list[Found]:
    found = json.loads(answer)
    return [Found(**(one | {"categories": tuple(one["categories"])})) for one in found]


def _run(answer: str) -> Run:
    run = json.loads(answer)
    return Run(**(run | {"notes": tuple(run["notes"])}))
