"""Observers that record, and act at the moments that matter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from icegate.catalog.publish import Published
    from icegate_compactor import Plan
    from icegate_compactor.files import StagedFile


class Watch:
    """Counts plans and stages by table, and calls back once for the first with units."""

    def __init__(
        self, *, when_planned: Callable[[], object] | None = None, when_staged: Callable[[], object] | None = None
    ) -> None:
        self.plans: list[Plan] = []
        self.files: list[StagedFile] = []
        self.published_rows: Counter[str] = Counter()
        self.progress: list[tuple[int, int]] = []
        self._when_planned = when_planned
        self._when_staged = when_staged

    def planned(self, plan: Plan) -> None:
        self.plans.append(plan)
        if plan.units and self._when_planned is not None:
            act, self._when_planned = self._when_planned, None
            act()

    def stage_progress(self, done: int, total: int) -> None:
        self.progress.append((done, total))

    def staged(self, plan: Plan, files: Sequence[StagedFile]) -> None:
        self.files += files
        if plan.units and self._when_staged is not None:
            act, self._when_staged = self._when_staged, None
            act()

    def published(self, plan: Plan, published: Published) -> None:
        assert published.position == plan.end
        self.published_rows[plan.table.name] += plan.rows

    def plans_of(self, table: str) -> int:
        return sum(plan.table.name == table for plan in self.plans)
