"""What is refused, by both decoders alike, and that nothing beside it is harmed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from icegate.errors import MalformedRequest
from icegate.otlp import Request, columnar, limits, plain
from otlp.messages import assert_same, payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.otlp import Decoded

PANICS = bytes.fromhex("0affffffffffffffffff01021200")


def field(number: int, content: bytes) -> bytes:
    assert number < 16
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def inside(content: bytes) -> bytes:
    """As a log record, span or metric: in the first scope of the first resource."""
    return field(1, field(2, field(2, content)))


def both(topic: str, payloads: Sequence[bytes]) -> Decoded:
    requests = [Request("t", p, 5) for p in payloads]
    one = columnar.decode(topic, requests)
    assert_same(topic, one, plain.decode(topic, requests))
    assert all(isinstance(error, MalformedRequest) and str(error) for error in one.failures.values())
    return one


BAD = [
    ("logs", b"\x0a\x05"),
    ("logs", PANICS),
    ("logs", inside(field(3, b"\xff"))),  # not UTF-8: severity_text
    ("logs", inside(field(3, b"\xed\xa0\x80"))),
    ("logs", inside(field(5, field(1, b"\xff")))),  # body
    ("logs", inside(field(6, field(1, b"\xff")))),  # key
    ("logs", inside(field(6, field(2, field(1, b"\xff"))))),  # value
    ("logs", field(1, field(1, field(3, field(1, b"\xff"))))),  # entity reference, not stored
    ("logs", inside(field(5, b"\x2a\x01\x0a"))),  # malformed body
    ("logs", inside(field(5, b"\x0a") + field(5, b"\x10\x01"))),  # malformed, followed by a good one
    ("logs", inside(b"\xa3\x06\xac\x06")),  # unmatched group
    ("logs", b"\xa3\x06" * 1000 + b"\xa4\x06" * 1000),  # groups a thousand deep
    ("logs", inside(b"\xf8\xff\xff\xff\x1f\x01")),  # field number out of range
    ("traces", inside(field(15, field(2, b"\xff")))),
    ("traces", inside(field(11, field(3, field(2, b"\x18"))))),
    ("metrics", inside(field(9, field(1, field(6, b"\x01" * 7))))),  # packed counts cut short
    ("metrics", inside(field(12, field(2, b"\x18")))),  # metadata, not stored
]


@pytest.mark.parametrize(("topic", "bad"), BAD)
def test_one_bad_request(topic: str, bad: bytes) -> None:
    rng = random.Random(3)
    good = [payload(topic, rng) for _ in range(4)]
    alone = both(topic, good)
    result = both(topic, [good[0], bad, good[1], good[2], bad, good[3]])
    assert sorted(result.failures) == [1, 4]
    assert result.rows == [alone.rows[0], 0, alone.rows[1], alone.rows[2], 0, alone.rows[3]]
    assert repr(result.table.to_pylist()) == repr(alone.table.to_pylist())


def test_only_bad_requests() -> None:
    result = both("logs", [PANICS, b"\xff", inside(field(5, b"\x18"))])
    assert sorted(result.failures) == [0, 1, 2]
    assert result.rows == [0, 0, 0]


def test_panic_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "checker", lambda _topic: ExportLogsServiceRequestUnchecked)
    good = payload("logs", random.Random(5))
    result = columnar.decode("logs", [Request("t", p, 5) for p in (good, PANICS, good)])
    assert list(result.failures) == [1]
    assert result.rows[0] == result.rows[2] > 0


class ExportLogsServiceRequestUnchecked:
    @staticmethod
    def FromString(payload: bytes) -> None:  # noqa: N802
        """Take anything."""


def test_other_base_exceptions_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(columnar, "batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        columnar.decode("logs", [Request("t", b"", 5)])


def test_last_kind_of_metric_wins() -> None:
    gauge, total = field(5, field(1, b"\x40\x01")), field(7, field(1, b"\x40\x02"))
    result = both("metrics", [inside(gauge), inside(gauge + total), inside(total + gauge)])
    assert result.table["metric_type"].to_pylist() == ["gauge", "sum", "gauge"]
    assert result.table["flags"].to_pylist() == [1, 2, 1]


def test_last_kind_of_number_wins() -> None:
    double, integer = b"\x21" + b"\0" * 8, b"\x31\x07" + b"\0" * 7
    exemplar_double, exemplar_integer = b"\x19" + b"\0" * 8, b"\x31\x08" + b"\0" * 7
    points = [double + integer, integer + double]
    samples = [field(5, exemplar_double + exemplar_integer), field(5, exemplar_integer + exemplar_double)]
    for pair in (points, samples):
        result = both("metrics", [inside(field(5, field(1, point))) for point in pair])
        assert not result.failures
    assert result.table["exemplars"].to_pylist()[0][0]["value_int"] == 8
    assert result.table["exemplars"].to_pylist()[1][0]["value_double"] == 0.0
    numbers = both("metrics", [inside(field(5, field(1, point))) for point in points]).table
    assert numbers["value_int"].to_pylist() == [7, None]
    assert numbers["value_double"].to_pylist() == [None, 0.0]


def test_parts_of_a_message_merge() -> None:
    logs = inside(field(5, field(1, b"kept")) + field(5, b""))
    spans = inside(field(15, field(2, b"kept")) + field(15, b"\x18\x02"))
    assert both("logs", [logs]).table["body"].to_pylist() == ["kept"]
    table = both("traces", [spans]).table
    assert (table["status_message"].to_pylist(), table["status_code"].to_pylist()) == (["kept"], [2])


def nested(levels: int, *, maps: bool) -> AnyValue:
    value = AnyValue(int_value=1)
    for _ in range(levels):
        if maps:
            value = AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=value)]))
        else:
            value = AnyValue(array_value=ArrayValue(values=[value]))
    return value


def test_nesting() -> None:
    """The bound is the same wherever a value stands, also where it is not stored (a metric's metadata)."""
    payloads = []
    for levels in (limits.MAX_NESTING, limits.MAX_NESTING + 1):
        for maps in (False, True):
            for place in ("resource", "metric", "exemplar"):
                message = ExportMetricsServiceRequest()
                group = message.resource_metrics.add()
                metric = group.scope_metrics.add().metrics.add()
                sample = metric.histogram.data_points.add().exemplars.add()
                attributes = {
                    "resource": group.resource.attributes,
                    "metric": metric.metadata,
                    "exemplar": sample.filtered_attributes,
                }[place]
                attributes.add(key="k").value.CopyFrom(nested(levels, maps=maps))
                payloads.append(message.SerializeToString())
    assert sorted(both("metrics", payloads).failures) == list(range(6, 12))


def amplified() -> dict[str, bytes]:
    """For each topic ten records that share 100 bytes of attributes and names."""
    logs = ExportLogsServiceRequest()
    group = logs.resource_logs.add()
    group.resource.attributes.add(key="12345").value.string_value = "x" * 75
    scope = group.scope_logs.add(schema_url="x" * 10, log_records=[LogRecord()] * 10)
    scope.scope.attributes.add(key="12345").value.string_value = "12345"
    spans = ExportTraceServiceRequest()
    spans_group = spans.resource_spans.add(schema_url="x" * 50)
    spans_scope = spans_group.scope_spans.add(spans=[Span()] * 10)
    spans_scope.scope.name, spans_scope.scope.version = "x" * 25, "x" * 25
    metrics = ExportMetricsServiceRequest()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="x" * 50, unit="x" * 25)
    metric.description = "x" * 25
    metric.gauge.data_points.extend([NumberDataPoint()] * 10)
    return {
        "logs": logs.SerializeToString(),
        "traces": spans.SerializeToString(),
        "metrics": metrics.SerializeToString(),
    }


@pytest.mark.parametrize("topic", ["logs", "traces", "metrics"])
def test_expansion(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = amplified()[topic]
    monkeypatch.setattr(limits, "MAX_EXPANSION", 1000)
    assert both(topic, [large, b"", large]).rows == [10, 0, 10]
    monkeypatch.setattr(limits, "MAX_EXPANSION", 999)
    result = both(topic, [large, b"", large])
    assert sorted(result.failures) == [0, 2]
    assert "1000 bytes" in str(result.failures[0])


def test_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    batch = columnar.batch

    def watched(topic: str, requests: list[Request]) -> object:
        calls.append((len(requests), sum(len(request.payload) for request in requests)))
        return batch(topic, requests)

    rng = random.Random(9)
    payloads = sorted((payload("logs", rng) for _ in range(40)), key=len)[10:]
    monkeypatch.setattr(columnar, "batch", watched)
    monkeypatch.setattr(columnar, "CALL_BYTES", 5000)
    both("logs", payloads)
    assert len(payloads[-1]) > 5000
    assert all(count == 1 or size <= 5000 for count, size in calls)
    assert sum(size for _, size in calls) == sum(map(len, payloads))
    assert len(calls) < len(payloads)
