"""Show on a terminal how a compaction goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import TaskID

    from icegate.catalog.publish import Published
    from icegate_compactor.files import StagedFile
    from icegate_compactor.plan import Plan


class TerminalProgress:
    """A bar for the plan at work, a line for each that is done: an observer of ``Compactor``.

    Use it as a context manager, which leaves the terminal as it was. Default: standard error.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._bar: TaskID | None = None

    def planned(self, plan: Plan) -> None:
        """Show the plan's bar."""
        self._remove_bar()
        self._bar = self._bars.add_task(
            f"{plan.table.name}: {plan.rows:,} rows of {len(plan.segments):,} segments", total=len(plan.units)
        )

    def stage_progress(self, done: int, total: int) -> None:
        """Move it."""
        if self._bar is not None:
            self._bars.update(self._bar, completed=done, total=total)

    def staged(self, plan: Plan, files: Sequence[StagedFile]) -> None:
        """Say that the commit is under way."""
        if self._bar is not None:
            self._bars.update(
                self._bar, completed=len(plan.units), description=f"{plan.table.name}: commit {len(files):,} files"
            )

    def published(self, plan: Plan, published: Published) -> None:
        """Put a line in place of the bar."""
        self._remove_bar()
        self._console.print(
            f"{plan.table.name}: {plan.rows:,} rows of {len(plan.segments):,} segments committed"
            f" (snapshot {published.snapshot_id})"
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._remove_bar()
        self._bars.stop()

    def _remove_bar(self) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None
