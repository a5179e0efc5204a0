"""Rolls the WAL into the Iceberg tables: plan, stage on Spark, publish in one commit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icegate_compactor.compactor import Compactor, Observer, TableReport
    from icegate_compactor.plan import CompactOptions, Plan
    from icegate_compactor.progress import TerminalProgress
    from icegate_compactor.session import SparkOptions

__all__ = ["CompactOptions", "Compactor", "Observer", "Plan", "SparkOptions", "TableReport", "TerminalProgress"]

_HOMES = {
    "CompactOptions": "plan",
    "Compactor": "compactor",
    "Observer": "compactor",
    "Plan": "plan",
    "SparkOptions": "session",
    "TableReport": "compactor",
    "TerminalProgress": "progress",
}


def __getattr__(name: str) -> Any:
    """Import on first use: Spark's workers load this package for its tasks, and those should start fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
