"""The compactor: plan, stage, publish, again and again until all that was durable at the start is in the tables."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self

from icegate.catalog.open import CatalogOptions, identifier, open_catalog
from icegate.catalog.position import base_of
from icegate.catalog.publish import publish
from icegate.errors import (
    AlreadyCompacted,
    CatalogUnavailable,
    EngineUnavailable,
    IceGateError,
    ObjectNotFound,
    PlanOutdated,
    SegmentMissing,
    StaleCut,
)
from icegate.tables import TABLES
from icegate_compactor.datafile import data_files
from icegate_compactor.footers import Footers
from icegate_compactor.plan import CompactOptions, Plan, make_plan
from icegate_compactor.session import Engine, SparkOptions
from icegate_compactor.stage import stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from pyiceberg.table import Table as IcebergTable

    from icegate.catalog.publish import Published
    from icegate.storage import Location
    from icegate.tables import Table
    from icegate.wal import Position
    from icegate_compactor.files import StagedFile

#: So many plans in a row may be overtaken by changes of the table or of the log.
_TRIES: Final = 5

_log = logging.getLogger(__name__)

Outcome = Literal["committed", "nothing-to-do", "already-compacted"]


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a run did for a table. ``snapshot_id``: the last commit of this run, None if it made none.

    ``already-compacted``: there was work, and another compactor did all of it.
    """

    table: str
    outcome: Outcome
    rows: int
    segments: int
    files: int
    snapshot_id: int | None
    position: Position


class Observer(Protocol):
    """Told how a compaction goes. ``stage_progress`` comes from another thread than the rest."""

    def planned(self, plan: Plan) -> None:
        """A plan is made; staging begins."""
        ...

    def stage_progress(self, done: int, total: int) -> None:
        """So many of Spark's tasks are done."""
        ...

    def staged(self, plan: Plan, files: Sequence[StagedFile]) -> None:
        """The files are written; publishing begins."""
        ...

    def published(self, plan: Plan, published: Published) -> None:
        """The commit is in the table."""
        ...


class Silent:
    """An observer that does nothing."""

    def planned(self, plan: Plan) -> None:
        """Nothing."""

    def stage_progress(self, done: int, total: int) -> None:
        """Nothing."""

    def staged(self, plan: Plan, files: Sequence[StagedFile]) -> None:
        """Nothing."""

    def published(self, plan: Plan, published: Published) -> None:
        """Nothing."""


class Compactor:
    """Compacts the log of one location. Any number of them may work on it, in any processes. Not thread-safe."""

    def __init__(
        self,
        location: Location,
        catalog_options: CatalogOptions,
        spark: SparkOptions,
        options: CompactOptions,
        observer: Observer | None = None,
    ) -> None:
        """Open log and catalog; Spark is looked at now, and starts with the first rows to stage.

        Raises:
            ConfigError, CatalogMismatch: as ``open_catalog``.
            EngineUnavailable: Spark or Java cannot work here.
        """
        self._engine = Engine(spark)
        self._engine.check()
        self._location = location
        self._store = location.open_store()
        self._catalog = open_catalog(location, catalog_options)
        self._options = options
        self._observer = observer or Silent()
        self._footers = Footers(self._store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark."""
        self._engine.close()

    def run_once(self) -> list[TableReport]:
        """Compact all that is durable now, for all tables; returns when it is committed, by whomever.

        A table that fails does not keep the others from being compacted.

        Raises:
            SegmentCorrupt, FormatTooNew: a segment cannot be used; nothing from it on is in its table.
            EngineUnavailable, StageFailed: Spark does not start or gave up.
            Exception: the first table's error; what was committed stays committed.
        """
        reports: list[TableReport] = []
        failures: list[Exception] = []
        for table in TABLES.values():
            try:
                reports.append(self._compact(table))
            except EngineUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - a catalog and a disk also fail in their drivers' own ways
                failures.append(error)
        for another in failures[1:]:
            _log.error("compaction of another table failed too: %s", another)
        if failures:
            raise failures[0]
        return reports

    def run_every(self, seconds: float, stop: Event) -> None:
        """Compact now and ``seconds`` after each run's end, until ``stop`` is set; a run under way is completed.

        A failure is logged, and the next run tries again: whatever it was, the log keeps what was not committed.
        """
        while not stop.is_set():
            try:
                self.run_once()
            except IceGateError as error:
                _log.error("compaction failed, the next run tries again: %s", error)
            except Exception:  # noqa: BLE001 - a library failing in its own way must not end the loop
                _log.exception("compaction failed, the next run tries again")
            stop.wait(seconds)

    def _compact(self, table: Table) -> TableReport:
        goal: Position | None = None
        done: list[tuple[Plan, Published, int]] = []
        overtaken = 0
        while True:
            loaded = self._load(table)
            try:
                plan = make_plan(loaded, self._store, table, self._options, self._footers, goal)
                if plan is None:
                    _check_reached(table, base_of(loaded).position, goal)
                    break
                goal = goal or plan.head
                done.append(self._commit(plan))
                overtaken = 0
            except AlreadyCompacted:
                continue  # every time, the position has moved on
            except (PlanOutdated, StaleCut, SegmentMissing, ObjectNotFound):
                overtaken += 1
                if overtaken == _TRIES:
                    raise
        return TableReport(
            table=table.name,
            outcome="committed" if done else "already-compacted" if goal else "nothing-to-do",
            rows=sum(plan.rows for plan, _, _ in done),
            segments=sum(len(plan.segments) for plan, _, _ in done),
            files=sum(files for _, _, files in done),
            snapshot_id=done[-1][1].snapshot_id if done else None,
            position=base_of(loaded).position,
        )

    def _commit(self, plan: Plan) -> tuple[Plan, Published, int]:
        self._observer.planned(plan)
        files = stage(
            self._engine, plan, self._location, self._options.task_memory_bytes, self._observer.stage_progress
        )
        self._observer.staged(plan, files)
        published = publish(self._catalog, plan.table, plan.base, data_files(plan.metadata, files), plan.end)
        self._observer.published(plan, published)
        return plan, published, len(files)

    def _load(self, table: Table) -> IcebergTable:
        try:
            return self._catalog.load_table(identifier(table))
        except Exception as error:  # a catalog fails in its driver's own ways
            raise CatalogUnavailable(f"cannot read table {table.name} from the catalog: {error}") from error


def _check_reached(table: Table, position: Position, goal: Position | None) -> None:
    """Segments at the log's end that vanish leave no hole to see."""
    if goal is not None and not position.covers(goal):
        raise SegmentMissing(
            f"table {table.name} stands at {position} and the log ends there, but reached to {goal} when the run began"
        )
