"""Races, kills, lost answers and changes under the plan: each row once, all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import StringType

from compactor.lake import Lake, event, log
from compactor.watch import Watch
from icegate.errors import ObjectNotFound, PublishError, SegmentCorrupt, SegmentMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from icegate.wal import SegmentKey
    from icegate_compactor import Compactor


class Replace(_OverwriteFiles):
    """The same rows in other files, as engines record it; pyiceberg itself only has overwrite."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)


KILLED = Path(__file__).with_name("killed.py")


def fill(lake: Lake) -> None:
    for n in range(4):
        lake.append("logs", n % 2, [log("a", f"{n}-{i}") for i in range(5)] + [event("b", f"{n}-e")])


def test_of_two_that_race_one_wins_and_both_succeed(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    both_staged = threading.Barrier(2, timeout=120)
    racers = [compactor(lake, Watch(when_staged=both_staged.wait)) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        reports = [found.result() for found in [pool.submit(each.run_once) for each in racers]]

    assert sorted(report[0].outcome for report in reports) == ["already-compacted", "committed"]
    assert [dict(report[0].position) for report in reports] == [{0: 1, 1: 1}] * 2
    assert sorted(report[0].rows for report in reports) == [0, 20]
    assert lake.snapshots("logs") == 1
    lake.check()


@pytest.mark.parametrize("moment", ["staged", "published"])
def test_killed_at_any_moment_the_next_run_completes(
    lake: Lake, compactor: Callable[..., Compactor], moment: str
) -> None:
    fill(lake)
    with subprocess.Popen(
        [sys.executable, str(KILLED), lake.location.url, moment],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"{moment} logs\n"
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    committed = moment == "published"
    assert lake.snapshots("logs") == committed
    assert list(Path(lake.table("logs").location().removeprefix("file://")).glob("data/**/*.parquet"))
    reports = compactor(lake).run_once()
    assert [report.outcome for report in reports[:2]] == ["nothing-to-do" if committed else "committed", "committed"]
    lake.check()


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_without_an_answer_is_looked_up(
    lake: Lake, compactor: Callable[..., Compactor], monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    fill(lake)
    real = SqlCatalog.commit_table
    lost: list[str] = []

    def commit(self: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
        if lost:
            return real(self, table, requirements, updates)
        lost.append("answer")
        if landed:
            real(self, table, requirements, updates)
        raise ConnectionResetError

    monkeypatch.setattr(SqlCatalog, "commit_table", commit)
    report = compactor(lake).run_once()[0]

    assert lost
    assert (report.outcome, report.rows) == ("committed", 20)
    assert lake.snapshots("logs") == 1
    lake.check()


def test_a_new_schema_makes_it_stage_again(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)

    def add_column() -> None:
        with lake.table("logs").update_schema() as update:
            update.add_column("added", StringType())

    watch = Watch(when_staged=add_column)
    report = compactor(lake, watch).run_once()[0]

    assert watch.plans_of("logs") == 2
    assert (report.rows, report.files) == (20, 1)
    lake.check()


def test_rows_deleted_meanwhile_make_it_stage_again(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    lake.append("logs", 0, [log("gone", "deleted")])
    compactor(lake).run_once()
    lake.append("logs", 0, [log("a", "new")])
    watch = Watch(when_staged=lambda: lake.table("logs").delete("tenant_id = 'gone'"))
    compactor(lake, watch).run_once()

    assert watch.plans_of("logs") == 2
    lake.expected["logs"] = [row for row in lake.expected["logs"] if row["tenant_id"] != "gone"]
    lake.check()


def test_maintenance_meanwhile_costs_no_second_stage(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)
    compactor(lake).run_once()
    lake.append("logs", 0, [log("a", "new")])

    def rewrite() -> None:
        table = lake.table("logs")
        with table.transaction() as transaction:
            (task,) = table.scan().plan_files()
            replace = Replace(Operation.OVERWRITE, transaction, table.io)
            replace.delete_data_file(task.file)
            replace.append_data_file(task.file)
            replace.commit()

    watch = Watch(when_staged=rewrite)
    report = compactor(lake, watch).run_once()[0]

    assert watch.plans_of("logs") == 1
    operations = [each.summary and each.summary.operation for each in lake.table("logs").metadata.snapshots]
    assert operations == [Operation.APPEND, Operation.REPLACE, Operation.APPEND]
    assert (report.rows, report.snapshot_id) == (1, lake.table("logs").metadata.current_snapshot_id)
    lake.check()


def test_a_table_that_never_holds_still_is_given_up(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    fill(lake)

    class Restless(Watch):
        def staged(self, plan: Any, files: Any) -> None:
            super().staged(plan, files)
            if plan.table.name == "logs":
                with lake.table("logs").update_schema() as update:
                    update.add_column(f"added_{len(self.plans)}", StringType())

    watch = Restless()
    with pytest.raises(PublishError, match="redefined"):
        compactor(lake, watch).run_once()
    assert watch.plans_of("logs") == 5
    assert lake.snapshots("logs") == 0
    assert lake.position("events") == {0: 1, 1: 1}


def test_a_segment_with_broken_rows_is_named_and_nothing_is_committed(
    lake: Lake, compactor: Callable[..., Compactor]
) -> None:
    lake.append("logs", 0, [log("a", "good")])
    bad = lake.append("logs", 0, [log("a", f"bad {n}") for n in range(100)])
    lake.append("traces", 0, [{"tenant_id": "a", "timestamp": 1, "ingested_at": 1}])
    path = _file(lake, bad)
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 1200 + data[1204:])

    with pytest.raises(SegmentCorrupt, match="logs/0@1"):
        compactor(lake).run_once()
    assert [lake.snapshots(name) for name in ("logs", "events", "spans")] == [0, 1, 1]  # none of it is for events
    assert lake.position("logs") == {}


def test_a_segment_with_a_broken_footer_is_named(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    bad = lake.append("logs", 3, [log("a", "bad")])
    _file(lake, bad).write_bytes(b"not a segment")

    with pytest.raises(SegmentCorrupt, match="logs/3@0"):
        compactor(lake).run_once()
    assert lake.snapshots("logs") == 0


def test_a_segment_that_disappears_is_named(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    lost = lake.append("logs", 0, [log("a", "lost")])
    lake.append("logs", 0, [log("a", "kept")])
    watch = Watch(when_planned=_file(lake, lost).unlink)

    with pytest.raises((SegmentMissing, ObjectNotFound), match=r"logs/0.* 0 is missing before 1"):
        compactor(lake, watch).run_once()
    assert lake.snapshots("logs") == 0


def test_a_segment_that_disappears_at_the_end_of_the_log_is_not_taken_for_done(
    lake: Lake, compactor: Callable[..., Compactor]
) -> None:
    lake.append("logs", 0, [log("a", "kept")])
    lost = lake.append("logs", 0, [log("a", "lost")])
    watch = Watch(when_planned=_file(lake, lost).unlink)

    with pytest.raises(SegmentMissing, match=r'table logs stands at {"0":0} .* reached to {"0":1}'):
        compactor(lake, watch).run_once()
    assert [row["body"] for row in lake.rows("logs")] == ["kept"]


def _file(lake: Lake, key: SegmentKey) -> Path:
    return Path(lake.location.url, key.path)
