"""Rows written out by hand, for both decoders."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
)

from icegate.otlp import Decoded, Request, columnar, plain
from icegate.tables import segment_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    Decode = Callable[[str, Sequence[Request]], Decoded]

pytestmark = pytest.mark.parametrize("decode", [columnar.decode, plain.decode], ids=["columnar", "plain"])

#: 2026-09-21T13:33:20.000001999Z
TIME = 1_789_997_600_000_001_999
RECEIVED = 1_789_997_700_000_000
AT = datetime(2026, 9, 21, 13, 33, 20, 1, tzinfo=UTC)
RECEIVED_AT = datetime(2026, 9, 21, 13, 35, tzinfo=UTC)
TRACE, TRACE_HEX = bytes(range(16)), "000102030405060708090a0b0c0d0e0f"
SPAN, SPAN_HEX = b"\xab\xcd\xef\x01\x23\x45\x67\x89", "abcdef0123456789"
LONG_MAX = 9_223_372_036_854_775_807
END_OF_TIME = datetime(2262, 4, 11, 23, 47, 16, 854775, tzinfo=UTC)

NO_ORIGIN: dict[str, Any] = {
    "service_name": None,
    "resource_attributes": [],
    "resource_schema_url": None,
    "scope_name": None,
    "scope_version": None,
    "scope_attributes": [],
    "scope_schema_url": None,
}
ORIGIN = {
    "service_name": "cart",
    "resource_attributes": [("service.name", "cart"), ("service.name", "other"), ("replicas", "3")],
    "resource_schema_url": "https://r",
    "scope_name": "lib",
    "scope_version": "1.2",
    "scope_attributes": [("stable", "true")],
    "scope_schema_url": "https://s",
}


def with_origin(group: Any, scopes: str) -> Any:
    group.schema_url = "https://r"
    for key, value in (("service.name", "cart"), ("service.name", "other")):
        group.resource.attributes.add(key=key).value.string_value = value
    group.resource.attributes.add(key="replicas").value.int_value = 3
    group.resource.dropped_attributes_count = 1
    scope = getattr(group, scopes).add(schema_url="https://s")
    scope.scope.name, scope.scope.version = "lib", "1.2"
    scope.scope.attributes.add(key="stable").value.bool_value = True
    return scope


def rows(decode: Decode, topic: str, *messages: Message) -> list[dict[str, Any]]:
    requests = [Request(f"t{i}", m.SerializeToString(), RECEIVED) for i, m in enumerate(messages)]
    decoded = decode(topic, requests)
    assert not decoded.failures
    assert decoded.table.schema.equals(segment_schema(topic))
    result: list[dict[str, Any]] = decoded.table.to_pylist()
    return result


def test_nothing(decode: Decode) -> None:
    for topic in ("logs", "traces", "metrics"):
        for requests in ([], [Request("t", b"", 1)] * 2):
            decoded = decode(topic, requests)
            assert decoded.table.schema.equals(segment_schema(topic))
            assert (len(decoded.table), list(decoded.rows), decoded.failures) == (0, [0] * len(requests), {})


def test_unknown_topic(decode: Decode) -> None:
    with pytest.raises(KeyError):
        decode("profiles", [Request("t", b"", 1)])


LOG_DEFAULTS = {
    **NO_ORIGIN,
    "tenant_id": "t0",
    "timestamp": RECEIVED_AT,
    "ingested_at": RECEIVED_AT,
    "time_unix_nano": None,
    "observed_time_unix_nano": None,
    "trace_id": None,
    "span_id": None,
    "severity_number": 0,
    "severity_text": None,
    "event_name": None,
    "body": None,
    "attributes": [],
    "dropped_attributes_count": 0,
    "flags": 0,
}


def test_logs(decode: Decode) -> None:
    first = ExportLogsServiceRequest()
    scope = with_origin(first.resource_logs.add(), "scope_logs")
    record = scope.log_records.add(
        time_unix_nano=TIME,
        observed_time_unix_nano=TIME + 1,
        trace_id=TRACE,
        span_id=SPAN,
        severity_number=17,
        severity_text="ERROR",
        event_name="order.failed",
        dropped_attributes_count=4_294_967_295,
        flags=4_294_967_295,
    )
    record.body.kvlist_value.values.add(key="reason").value.double_value = 0.5
    for value in ("b", "a"):
        record.attributes.add(key="k").value.string_value = value
    record.attributes.add(key="")
    first.resource_logs.add().scope_logs.add().log_records.add(observed_time_unix_nano=TIME)
    second = ExportLogsServiceRequest()
    scope = second.resource_logs.add().scope_logs.add()
    scope.log_records.add(trace_id=b"\1", span_id=b"\2" * 9).body.string_value = ""
    scope.log_records.add(time_unix_nano=(1 << 64) - 1)
    assert rows(decode, "logs", first, second) == [
        LOG_DEFAULTS
        | ORIGIN
        | {
            "timestamp": AT,
            "time_unix_nano": TIME,
            "observed_time_unix_nano": TIME + 1,
            "trace_id": TRACE_HEX,
            "span_id": SPAN_HEX,
            "severity_number": 17,
            "severity_text": "ERROR",
            "event_name": "order.failed",
            "body": '{"reason":0.5}',
            "attributes": [("k", "b"), ("k", "a"), ("", None)],
            "dropped_attributes_count": 4_294_967_295,
            "flags": 4_294_967_295,
        },
        LOG_DEFAULTS | {"timestamp": AT, "observed_time_unix_nano": TIME},
        LOG_DEFAULTS | {"tenant_id": "t1", "trace_id": "01", "span_id": "02" * 9, "body": ""},
        LOG_DEFAULTS | {"tenant_id": "t1", "timestamp": END_OF_TIME, "time_unix_nano": LONG_MAX},
    ]


SPAN_DEFAULTS = {
    **NO_ORIGIN,
    "tenant_id": "t0",
    "timestamp": RECEIVED_AT,
    "ingested_at": RECEIVED_AT,
    "time_unix_nano": None,
    "trace_id": None,
    "span_id": None,
    "parent_span_id": None,
    "trace_state": None,
    "name": "",
    "kind": 0,
    "end_time_unix_nano": None,
    "duration_nano": None,
    "status_code": 0,
    "status_message": None,
    "events": [],
    "links": [],
    "attributes": [],
    "dropped_attributes_count": 0,
    "dropped_events_count": 0,
    "dropped_links_count": 0,
    "flags": 0,
}


def test_spans(decode: Decode) -> None:
    message = ExportTraceServiceRequest()
    scope = with_origin(message.resource_spans.add(), "scope_spans")
    span = scope.spans.add(
        start_time_unix_nano=TIME,
        end_time_unix_nano=TIME + 5,
        trace_id=TRACE,
        span_id=SPAN,
        parent_span_id=SPAN[::-1],
        trace_state="a=b",
        name="GET",
        kind=2,
        dropped_attributes_count=1,
        dropped_events_count=2,
        dropped_links_count=3,
        flags=257,
    )
    span.status.code, span.status.message = 2, "late"
    span.attributes.add(key="a").value.bytes_value = b"\0"
    span.events.add(time_unix_nano=TIME, name="e", dropped_attributes_count=4).attributes.add(key="x")
    span.events.add()
    link = span.links.add(trace_id=TRACE, span_id=SPAN, trace_state="c=d", dropped_attributes_count=5, flags=6)
    link.attributes.add(key="y").value.int_value = 1
    span.links.add()
    scope = message.resource_spans.add().scope_spans.add()
    scope.spans.add(start_time_unix_nano=TIME, end_time_unix_nano=TIME - 1)
    scope.spans.add(end_time_unix_nano=TIME)
    scope.spans.add(start_time_unix_nano=TIME)
    assert rows(decode, "traces", message) == [
        SPAN_DEFAULTS
        | ORIGIN
        | {
            "timestamp": AT,
            "time_unix_nano": TIME,
            "trace_id": TRACE_HEX,
            "span_id": SPAN_HEX,
            "parent_span_id": "8967452301efcdab",
            "trace_state": "a=b",
            "name": "GET",
            "kind": 2,
            "end_time_unix_nano": TIME + 5,
            "duration_nano": 5,
            "status_code": 2,
            "status_message": "late",
            "events": [
                {
                    "time_unix_nano": TIME,
                    "name": "e",
                    "attributes": [("x", None)],
                    "dropped_attributes_count": 4,
                },
                {"time_unix_nano": None, "name": "", "attributes": [], "dropped_attributes_count": 0},
            ],
            "links": [
                {
                    "trace_id": TRACE_HEX,
                    "span_id": SPAN_HEX,
                    "trace_state": "c=d",
                    "attributes": [("y", "1")],
                    "dropped_attributes_count": 5,
                    "flags": 6,
                },
                {
                    "trace_id": None,
                    "span_id": None,
                    "trace_state": None,
                    "attributes": [],
                    "dropped_attributes_count": 0,
                    "flags": 0,
                },
            ],
            "attributes": [("a", "AA==")],
            "dropped_attributes_count": 1,
            "dropped_events_count": 2,
            "dropped_links_count": 3,
            "flags": 257,
        },
        SPAN_DEFAULTS | {"timestamp": AT, "time_unix_nano": TIME, "end_time_unix_nano": TIME - 1, "duration_nano": -1},
        SPAN_DEFAULTS | {"end_time_unix_nano": TIME},
        SPAN_DEFAULTS | {"timestamp": AT, "time_unix_nano": TIME},
    ]


#: What no kind of point has unless it says so.
POINT_DEFAULTS = {
    **dict.fromkeys(segment_schema("metrics").names),
    **NO_ORIGIN,
    "tenant_id": "t0",
    "timestamp": RECEIVED_AT,
    "ingested_at": RECEIVED_AT,
    "metric_name": "",
    "attributes": [],
    "flags": 0,
}


def test_metrics_of_all_kinds_in_order(decode: Decode) -> None:
    message = ExportMetricsServiceRequest()
    scope = with_origin(message.resource_metrics.add(), "scope_metrics")
    summary = scope.metrics.add(name="s", unit="ms", description="d").summary.data_points
    point = summary.add(time_unix_nano=TIME, start_time_unix_nano=TIME - 9, count=1 << 63, sum=2.5, flags=1)
    point.quantile_values.add(quantile=0.5, value=7)
    point.attributes.add(key="k").value.double_value = 1
    summary.add()
    scope = message.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="nothing").metadata.add(key="m")
    exponential = scope.metrics.add().exponential_histogram
    exponential.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    full = exponential.data_points.add(count=3, sum=0, min=-1, max=1, scale=-2, zero_count=4, zero_threshold=0.25)
    full.positive.offset = -3
    full.positive.bucket_counts.extend([1, (1 << 64) - 1])
    full.negative.SetInParent()
    exponential.data_points.add()
    histogram = scope.metrics.add().histogram
    histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    buckets = histogram.data_points.add(bucket_counts=[1, 1 << 63], explicit_bounds=[0.5], count=9, min=0)
    sample = buckets.exemplars.add(time_unix_nano=TIME, as_int=-5, trace_id=TRACE, span_id=SPAN)
    sample.filtered_attributes.add(key="f").value.string_value = "g"
    buckets.exemplars.add(as_double=0)
    histogram.data_points.add()
    total = scope.metrics.add(name="total").sum
    total.is_monotonic = True
    total.data_points.add(as_int=-7)
    total.data_points.add()
    scope.metrics.add().gauge.data_points.add(as_double=0, exemplars=[sample])
    scope.metrics.add().sum.data_points.add(as_double=1.5)
    exemplar = {
        "time_unix_nano": TIME,
        "value_double": None,
        "value_int": -5,
        "trace_id": TRACE_HEX,
        "span_id": SPAN_HEX,
        "filtered_attributes": [("f", "g")],
    }
    blank = dict.fromkeys(exemplar) | {"value_double": 0.0, "filtered_attributes": []}
    point_of = {
        "exponential": {"metric_type": "exponential_histogram", "temporality": 1, "exemplars": []},
        "histogram": {"metric_type": "histogram", "temporality": 2, "exemplars": []},
        "sum": {"metric_type": "sum", "temporality": 0, "is_monotonic": True, "exemplars": []},
    }
    of_summary = {"metric_name": "s", "unit": "ms", "description": "d", "metric_type": "summary"}
    expected: list[dict[str, Any]] = [
        ORIGIN
        | of_summary
        | {
            "timestamp": AT,
            "time_unix_nano": TIME,
            "start_time_unix_nano": TIME - 9,
            "count": LONG_MAX,
            "sum": 2.5,
            "quantiles": [{"quantile": 0.5, "value": 7.0}],
            "attributes": [("k", "1")],
            "flags": 1,
        },
        ORIGIN | of_summary | {"count": 0, "sum": 0.0, "quantiles": []},
        point_of["exponential"]
        | {
            "count": 3,
            "sum": 0.0,
            "min": -1.0,
            "max": 1.0,
            "scale": -2,
            "zero_count": 4,
            "zero_threshold": 0.25,
            "positive_offset": -3,
            "positive_bucket_counts": [1, LONG_MAX],
            "negative_offset": 0,
            "negative_bucket_counts": [],
        },
        point_of["exponential"] | {"count": 0, "scale": 0, "zero_count": 0, "zero_threshold": 0.0},
        point_of["histogram"]
        | {
            "count": 9,
            "min": 0.0,
            "bucket_counts": [1, LONG_MAX],
            "explicit_bounds": [0.5],
            "exemplars": [exemplar, blank],
        },
        point_of["histogram"] | {"count": 0, "bucket_counts": [], "explicit_bounds": []},
        point_of["sum"] | {"metric_name": "total", "value_int": -7},
        point_of["sum"] | {"metric_name": "total"},
        {"metric_type": "gauge", "value_double": 0.0, "exemplars": [exemplar]},
        point_of["sum"] | {"value_double": 1.5, "is_monotonic": False},
    ]
    assert rows(decode, "metrics", message) == [POINT_DEFAULTS | row for row in expected]
