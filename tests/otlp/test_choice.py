"""The room's exports, and which decoder it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from icegate import otlp
from icegate.otlp import columnar, plain, selftest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


@pytest.fixture(autouse=True)
def undecided() -> Iterator[None]:
    otlp._decoder.cache_clear()
    yield
    otlp._decoder.cache_clear()


def test_exports() -> None:
    assert otlp.__all__ == sorted(otlp.__all__)
    assert otlp.__all__ == ["Decoded", "Request", "decode"]


def test_ptars_is_used_where_it_works(caplog: pytest.LogCaptureFixture) -> None:
    assert otlp._decoder() is columnar.decode
    assert not caplog.records


def test_ptars_that_fails_is_not_used(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_topic: str) -> None:
        raise ValueError("no such message")

    monkeypatch.setattr(columnar, "handler", broken)
    assert otlp._decoder() is plain.decode
    assert "ptars does not work here" in caplog.text
    assert otlp.decode("logs", [otlp.Request("t", b"\xff", 1)]).rows == [0]


def test_ptars_that_panics_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def broken(*_: object) -> None:
        raise PanicException

    monkeypatch.setattr(columnar, "batch", broken)
    assert otlp._decoder() is plain.decode


def test_interrupts_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(columnar, "batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        otlp._decoder()


def test_ptars_that_decodes_wrongly_is_not_used() -> None:
    def swapped(topic: str, requests: list[otlp.Request]) -> tuple[pa.RecordBatch, list[int]]:
        rows, counts = columnar.batch(topic, requests)
        return rows.take(list(range(rows.num_rows))[::-1]), counts

    def uncounted(topic: str, requests: list[otlp.Request]) -> tuple[pa.RecordBatch, list[int]]:
        return columnar.batch(topic, requests)[0], [0, 0]

    for batch in (swapped, uncounted):
        with pytest.raises(RuntimeError, match="sample of logs"):
            selftest.run(batch)
