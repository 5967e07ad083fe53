"""The exceptions of memfold."""

from __future__ import annotations


class Error(Exception):
    """Every exception of memfold.

    ``hint`` says what to do about it, or is None; it is part of the message.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.hint = hint


class InputError(Error, ValueError):
    """What was handed in cannot be used: a shape, a type, a value, a configuration."""


class StoreError(Error):
    """A store or an index cannot be read or written."""


class RefusedError(StoreError):
    """Writing was refused, and nothing was written: a plan nobody looked at, a read-only store."""
