"""The whole pipeline on real servers, with the OpenTelemetry SDK as the client and SQL as the judge."""

from __future__ import annotations

import queue
import socket
import threading
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

import spark
from icegate import client, config
from icegate.tables import TABLES
from icegate.up import Embedded
from s3_server import running_s3
from sdk import Endpoints, Sent, merged, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = list(spark.MARKS)

TENANTS = ("acme", "globex")


class Gate:
    """An observer that holds the compactor after each stage and each publish until told to go on."""

    def __init__(self) -> None:
        self.reached: queue.Queue[str] = queue.Queue()
        self._go = threading.Semaphore(0)

    def planned(self, plan: Any) -> None: ...

    def stage_progress(self, done: int, total: int) -> None: ...

    def staged(self, plan: Any, files: Any) -> None:
        self._hold("staged")

    def published(self, plan: Any, published: Any) -> None:
        self._hold("published")

    def go_on(self) -> None:
        self._go.release()

    def _hold(self, where: str) -> None:
        self.reached.put(where)
        assert self._go.acquire(timeout=120)


def _ids(running: Embedded, tenant: str, table: str, read_mode: Any = "latest") -> Counter[str]:
    answer = client.sql(
        f"http://127.0.0.1:{running.sql_port}",
        f"SELECT attributes['id'] AS id FROM {table}",
        tenant=tenant,
        read_mode=read_mode,
    )
    return Counter(answer.column("id").to_pylist())


def _check(running: Embedded, sent: Sent, read_mode: Any = "latest") -> None:
    for (tenant, table), ids in sent.items():
        assert _ids(running, tenant, table, read_mode) == Counter(ids), f"{tenant}.{table}"


def _send_all(running: Embedded, prefix: str, records: int) -> Sent:
    to = Endpoints(running.grpc_port, running.http_port)
    return merged(
        *(send(to, tenant, transport, prefix, records) for tenant in TENANTS for transport in ("grpc", "http"))
    )


def _settings(data: str, **more: Any) -> config.Settings:
    return config.load(data=data, grpc_port=0, http_port=0, sql_port=0, **more)


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def _compact(running: Embedded, gate: Gate, at_each_stop: Callable[[], None]) -> list[str]:
    """One run, with a look around wherever it stops; returns where that was."""
    compaction = threading.Thread(target=running.compactor.run_once)
    compaction.start()
    stops = []
    while compaction.is_alive():
        try:
            stops.append(gate.reached.get(timeout=0.2))
        except queue.Empty:
            continue
        at_each_stop()
        gate.go_on()
    return stops


def test_each_count_is_exact_before_during_and_after_compaction(tmp_path: Path) -> None:
    gate = Gate()
    with Embedded(_settings(str(tmp_path / "data")), observer=gate) as running:
        sent = _send_all(running, "first", 150)
        _check(running, sent)
        for table in TABLES:
            assert _ids(running, TENANTS[0], table, "committed") == Counter()

        def more_arrives_and_all_is_seen() -> None:
            nonlocal sent
            _check(running, sent)
            sent = merged(sent, _send_all(running, f"during-{len(sent['acme', 'logs'])}", 5))
            _check(running, sent)

        stops = _compact(running, gate, more_arrives_and_all_is_seen)
        assert stops.count("staged") == stops.count("published") >= len(TABLES)

        _compact(running, gate, lambda: _check(running, sent))
        _check(running, sent)
        _check(running, sent, "committed")
        _check_segments_landed_once(running, sent)


def test_stopping_ends_ingest_first_and_lets_a_compaction_under_way_finish(tmp_path: Path) -> None:
    gate = Gate()
    running = Embedded(_settings(str(tmp_path / "data")), observer=gate)
    sent = _send_all(running, "before", 5)
    running.compact_every(3600)
    assert gate.reached.get(timeout=120) == "staged"
    stopping = threading.Thread(target=running.close)
    stopping.start()
    while _answers(running.http_port):
        assert stopping.is_alive()
    assert stopping.is_alive()  # the compaction is held
    gate.go_on()
    while stopping.is_alive():
        try:
            gate.reached.get(timeout=0.2)
        except queue.Empty:
            continue
        gate.go_on()
    assert not _answers(running.sql_port)
    with Embedded(_settings(str(tmp_path / "data"))) as again:
        _check(again, sent, "committed")


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionError:  # refused, or reset while the listener closes
        return False
    return True


def _check_segments_landed_once(running: Embedded, sent: Sent) -> None:
    """One query an auditor would write: rows by segment, against what was sent."""
    for table in TABLES:
        total = 0
        for tenant in TENANTS:
            answer = client.sql(
                f"http://127.0.0.1:{running.sql_port}",
                f"""SELECT wal_shard, wal_offset, count(*) AS n, count(DISTINCT attributes['id']) AS distinct_rows
                    FROM {table} GROUP BY wal_shard, wal_offset ORDER BY wal_shard, wal_offset""",
                tenant=tenant,
            )
            assert answer.column("n").to_pylist() == answer.column("distinct_rows").to_pylist()
            total += sum(answer.column("n").to_pylist())
        assert total == sum(len(sent[tenant, table]) for tenant in TENANTS)


def test_the_same_on_s3(tmp_path: Path) -> None:
    with running_s3() as s3:
        data = f"s3://{s3.new_bucket()}/some/prefix"
        _everything_on_s3(_settings(data, s3=asdict(s3.options), catalog={"uri": f"sqlite:///{tmp_path}/catalog.db"}))
    assert {path.name for path in tmp_path.iterdir()} == {"catalog.db"}


def _everything_on_s3(settings: config.Settings) -> None:
    with Embedded(settings) as running:
        sent = _send_all(running, "s3", 30)
        _check(running, sent)
        running.compactor.run_once()
        _check(running, sent)
        _check(running, sent, "committed")
        _check_segments_landed_once(running, sent)
