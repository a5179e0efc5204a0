"""Stage: run a plan's units on Spark. Files are written and described; the table does not know them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icegate import errors
from icegate_compactor.files import StagedFile, Target
from icegate_compactor.task import RESULT, UNIT, Job, run, unit_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from icegate.storage import Location
    from icegate_compactor.plan import Plan
    from icegate_compactor.session import Engine


def stage(
    engine: Engine, plan: Plan, location: Location, memory_bytes: int, progress: Callable[[int, int], None]
) -> list[StagedFile]:
    """Write the plan's files; without units, Spark is not touched.

    Raises:
        EngineUnavailable, StageFailed: as ``Engine.run``.
        ObjectNotFound: a segment was cleaned since the plan was made.
        SegmentCorrupt, FormatTooNew: a segment cannot be used; the message names it.
    """
    if not plan.units:
        return []
    target = Target(location, plan.data_folder, plan.file_schema, plan.table.bloom_filters)
    job = Job(plan.table.name, target, memory_bytes)

    def task(units: Iterator[Any]) -> Iterator[Any]:
        return run(job, units)

    rows = engine.run([unit_row(unit) for unit in plan.units], UNIT, task, RESULT, progress)
    for row in rows:
        if row.error is not None:
            raise getattr(errors, row.error)(row.text)
    return sorted(
        (StagedFile(row.path, row.tenant, row.day, row.rows, row.size, bytes(row.footer)) for row in rows),
        key=lambda file: file.path,
    )
