"""Panics of Rust code."""

from __future__ import annotations


def panicked(error: BaseException) -> bool:
    """Whether this is a panic: not an ``Exception``, and of a class that cannot be imported."""
    return type(error).__name__ == "PanicException"
