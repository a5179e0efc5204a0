"""The command, as a shell sees it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Self

import httpx
import pytest

from gateway.payloads import logs

if TYPE_CHECKING:
    from pathlib import Path


def _run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ICEGATE_")}
    return subprocess.run(
        [sys.executable, "-m", "icegate", *arguments],
        cwd=folder,
        env=clean | {"COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_wrong_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = _run(tmp_path, "gateway", ICEGATE_GRPC_PORT="70000")
    assert done.returncode == 2
    assert done.stderr.startswith("icegate: grpc_port: ")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with _Running(tmp_path, "gateway", "--grpc-port", "0", "--http-port", "0") as running:
        taken = running.port("OTLP/HTTP")
        done = _run(tmp_path, "gateway", "--grpc-port", "0", "--http-port", str(taken))
    assert done.returncode == 2
    assert f"http_port: cannot listen on 127.0.0.1:{taken}" in done.stderr
    assert "Traceback" not in done.stderr


def test_sql_without_a_service_says_what_to_start(tmp_path: Path) -> None:
    done = _run(tmp_path, "sql", "--url", "http://127.0.0.1:9", "SELECT 1")
    assert done.returncode == 1
    assert "icegate up" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_config_show_lists_keys_values_and_variables(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        "config",
        "show",
        ICEGATE_SQL_PORT="9999",
        ICEGATE_S3__SECRET_ACCESS_KEY="hush",
        ICEGATE_CATALOG__URI="postgresql+psycopg://me:hush@host/db",
    )
    assert done.returncode == 0
    assert "sql_port = 9999  # ICEGATE_SQL_PORT" in done.stdout.splitlines()
    assert "hush" not in done.stdout


def test_wal_status_of_an_empty_lake(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    done = _run(tmp_path, "wal", "status", "--data", "lake")
    assert done.returncode == 0, done.stderr
    assert "position" in done.stdout


@pytest.mark.parametrize("command", [("wal", "status"), ("compact", "--once"), ("query", "--sql-port", "0")])
def test_a_folder_that_is_not_there_is_a_mistake_and_is_not_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = _run(tmp_path, *command, "--data", "typo")
    assert done.returncode == 2
    assert f"there is no folder {tmp_path}/typo" in done.stderr
    assert not list(tmp_path.iterdir())


class _Running:
    """A long-running command and what it prints."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ICEGATE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "icegate", *arguments],
            cwd=folder,
            env=clean,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._seen = ""

    def port(self, what: str) -> int:
        assert self.process.stdout is not None
        while (match := re.search(rf"{what}\s+\S*?:(\d+)\n", self._seen)) is None:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read() if self.process.stderr else ""
            self._seen += line
        return int(match[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("role", ["up", "gateway", "query"])
def test_each_role_says_where_it_listens_is_ready_and_ends_on_sigterm(tmp_path: Path, role: str) -> None:
    flags = {
        "up": ("--grpc-port", "0", "--http-port", "0", "--sql-port", "0"),
        "gateway": ("--grpc-port", "0", "--http-port", "0"),
        "query": ("--sql-port", "0"),
    }[role]
    ports = {"up": ("OTLP/HTTP", "SQL"), "gateway": ("OTLP/HTTP",), "query": ("SQL",)}[role]
    (tmp_path / "lake").mkdir()
    with _Running(tmp_path, role, "--data", "lake", *flags) as running:
        for name in ports:
            port = running.port(name)
            assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=30).status_code == 200
            assert httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30).status_code == 200
        running.process.send_signal(signal.SIGTERM)
        _, errors = running.process.communicate(timeout=60)
        assert running.process.returncode == 0, errors
        assert "Traceback" not in errors


def test_the_roles_work_together_from_the_shell(tmp_path: Path) -> None:
    """What README.md tells to type: gateway and query apart, SQL, status, a compaction from cron."""
    (tmp_path / "lake").mkdir()
    gateway = _Running(tmp_path, "gateway", "--data", "lake", "--grpc-port", "0", "--http-port", "0")
    query = _Running(tmp_path, "query", "--data", "lake", "--sql-port", "0")
    with gateway, query:
        ingest, sql = (f"http://127.0.0.1:{each}" for each in (gateway.port("OTLP/HTTP"), query.port("SQL")))
        sent = httpx.post(
            f"{ingest}/v1/logs",
            content=logs("first", "second"),
            headers={"Content-Type": "application/x-protobuf", "X-Scope-OrgID": "acme"},
        )
        assert sent.status_code == 200

        def ask(*more: str) -> str:
            done = _run(tmp_path, "sql", "--url", sql, "--tenant", "acme", *more)
            assert done.returncode == 0, done.stderr
            return done.stdout

        everything = "SELECT body, wal_shard, wal_offset FROM logs ORDER BY body"
        assert re.search(r"first\s+0\s+0\s+second\s+0\s+0\s+2 rows", ask(everything))
        assert "0 rows" in ask("--read-mode", "committed", everything)
        wrong = _run(tmp_path, "sql", "--url", sql, "SELECT bodi FROM logs")
        assert wrong.returncode == 1
        assert "bodi" in wrong.stderr
        assert "Traceback" not in wrong.stderr

        assert re.search(
            r"logs\s+logs\s+0\s+-1\s+0\s+1\s+\d+", _run(tmp_path, "wal", "status", "--data", "lake").stdout
        )
        done = _run(tmp_path, "compact", "--once", "--data", "lake")
        assert done.returncode == 0, done.stderr
        assert re.search(r"logs\s+committed\s+1\s+2\s+1", done.stdout)
        assert re.search(r"logs\s+logs\s+0\s+0\s+0\s+0\s+0", _run(tmp_path, "wal", "status", "--data", "lake").stdout)
        assert re.search(r"first\s+0\s+0\s+second\s+0\s+0\s+2 rows", ask("--read-mode", "committed", everything))
        again = _run(tmp_path, "compact", "--once", "--data", "lake")
        assert (again.returncode, again.stdout.count("nothing-to-do")) == (0, 4)


@pytest.mark.parametrize(
    ("flags", "says"), [(("--once", "--every", "5s"), "exclude each other"), (("--every", "soon"), "not a duration")]
)
def test_flags_of_compact_that_make_no_sense_are_one_line(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    done = _run(tmp_path, "compact", *flags, "--data", "lake")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_compaction_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    done = _run(tmp_path, "compact", "--once", "--data", "lake", ICEGATE_SPARK__JAVA_HOME="/nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("icegate: Spark needs Java, and /nowhere/bin/java does not run")
    assert len(done.stderr.splitlines()) == 1


def test_a_command_whose_packages_are_not_installed_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "pyiceberg.py").write_text("raise ModuleNotFoundError('No module named pyiceberg', name='pyiceberg')")
    path = os.pathsep.join([str(missing), *sys.path])
    for command in (("compact", "--once"), ("query",), ("wal", "status")):
        done = _run(tmp_path, *command, "--data", "lake", PYTHONPATH=path)
        assert done.returncode == 2
        assert done.stderr == (
            "icegate: this command needs pyiceberg, which is not installed: pip install 'icegate[all]'\n"
        )
