"""Data points of the five kinds of metrics as rows of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from icegate.otlp import anyvalue, arrays, flatten
from icegate.tables.column import DOUBLE, LONG, STRING
from icegate.tables.metrics import EXEMPLAR, QUANTILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.otlp.arrays import Ints
    from icegate.otlp.flatten import Columns
    from icegate.otlp.request import Request

_GAUGE, _SUM, _HISTOGRAM, _EXPONENTIAL, _SUMMARY = _KINDS = (
    "gauge",
    "sum",
    "histogram",
    "exponential_histogram",
    "summary",
)
_NUMBERS: Final = (_GAUGE, _SUM)
_HISTOGRAMS: Final = (_HISTOGRAM, _EXPONENTIAL)
_COUNTED: Final = (*_HISTOGRAMS, _SUMMARY)
_SAMPLED: Final = (*_NUMBERS, *_HISTOGRAMS)


def columns(batch: pa.RecordBatch, requests: Sequence[Request]) -> tuple[Columns, Ints]:
    """The columns of topic ``metrics``, and the index of each row's request.

    Args:
        batch: Decoded ``ExportMetricsServiceRequest`` messages, one a request.
        requests: The requests.

    Raises:
        ValueError, DecodeError, MalformedRequest: Some attribute does not decode, or two members of a oneof
            are set, of which ptars does not tell which came last.
        TooExpansive: The rows would be too large.
    """
    walked = flatten.walk(batch, "scope_metrics", "metrics")
    metric = walked.records
    points = _points(metric)
    rows = walked.at(points.metric)
    exemplars = points.raw("exemplars", *_SAMPLED)
    attributes = points.raw("attributes", *_KINDS)
    (own, of_exemplar, resource, scope, _), _ = anyvalue.maps(
        [
            attributes,
            exemplars.values.field("filtered_attributes"),
            walked.resource_attributes,
            walked.scope_attributes,
            metric.field("metadata"),  # not stored, but must be well-formed
        ]
    )
    per_metric = {
        "metric_name": metric.field("name"),
        "description": arrays.blank_to_null(metric.field("description")),
        "unit": arrays.blank_to_null(metric.field("unit")),
    }
    time = arrays.numbers(points.raw("time_unix_nano", *_KINDS))[points.order]
    start = arrays.numbers(points.raw("start_time_unix_nano", *_KINDS))[points.order]
    samples = arrays.lists(exemplars, _exemplars(exemplars.values, of_exemplar), pa.list_(EXEMPLAR))
    bounds = points.raw("explicit_bounds", _HISTOGRAM)
    bounds = arrays.lists(bounds, bounds.values, pa.list_(DOUBLE))
    nothing = pa.nulls(len(points.order), STRING)
    return {
        **flatten.shared(rows, requests, resource, scope, (per_metric, points.metric)),
        "timestamp": flatten.timestamps(time, rows, requests),
        "time_unix_nano": arrays.longs(time, time != 0),
        "trace_id": nothing,
        "span_id": nothing,
        "metric_type": arrays.pick(pa.array(_KINDS), points.kind),
        "temporality": points.of_metric(metric, "aggregation_temporality", _SUM, *_HISTOGRAMS),
        "is_monotonic": points.of_metric(metric, "is_monotonic", _SUM),
        "start_time_unix_nano": arrays.longs(start, start != 0),
        "value_double": points.column("as_double", *_NUMBERS),
        "value_int": points.column("as_int", *_NUMBERS),
        "count": points.longs("count", *_COUNTED),
        "sum": points.column("sum", *_COUNTED),
        "min": points.column("min", *_HISTOGRAMS),
        "max": points.column("max", *_HISTOGRAMS),
        "bucket_counts": points.place(_longs(points.raw("bucket_counts", _HISTOGRAM)), _HISTOGRAM),
        "explicit_bounds": points.place(bounds, _HISTOGRAM),
        "scale": points.column("scale", _EXPONENTIAL),
        "zero_count": points.longs("zero_count", _EXPONENTIAL),
        "zero_threshold": points.column("zero_threshold", _EXPONENTIAL),
        **_buckets(points, "positive"),
        **_buckets(points, "negative"),
        "quantiles": points.place(_quantiles(points.raw("quantile_values", _SUMMARY)), _SUMMARY),
        "exemplars": points.place(samples, *_SAMPLED),
        "attributes": points.place(own, *_KINDS),
        "flags": points.longs("flags", *_KINDS),
    }, rows.request


@dataclass(frozen=True, slots=True)
class _Points:
    """The points of each kind, and how to bring them into the order sent.

    Attributes:
        by_kind: For each kind its points.
        metric: The metric each row belongs to; rows are in the order sent.
        order: Each row's index among all points, kind after kind.
        kind: Each row's kind, as index into ``_KINDS``.
    """

    by_kind: dict[str, pa.StructArray]
    metric: Ints
    order: Ints
    kind: Ints

    def raw(self, field: str, *kinds: str) -> pa.Array:
        """A field of the points of these kinds, kind after kind."""
        return pa.concat_arrays([self.by_kind[kind].field(field) for kind in kinds])

    def place(self, values: pa.Array, *kinds: str) -> pa.Array:
        """Values of the points of these kinds, kind after kind, as a column; null on rows of other kinds."""
        index = [np.full(len(points), -1) for points in self.by_kind.values()]
        start = 0
        for kind in kinds:
            size = len(self.by_kind[kind])
            index[_KINDS.index(kind)] = np.arange(start, start + size)
            start += size
        return arrays.pick(values, np.concatenate(index)[self.order])

    def column(self, field: str, *kinds: str) -> pa.Array:
        """A field that only points of these kinds have, as a column."""
        return self.place(self.raw(field, *kinds), *kinds)

    def longs(self, field: str, *kinds: str) -> pa.Int64Array:
        """The same for unsigned integers."""
        return self.place(arrays.longs(arrays.numbers(self.raw(field, *kinds))), *kinds)

    def of_metric(self, metrics: pa.StructArray, field: str, *kinds: str) -> pa.Array:
        """A field that metrics of these kinds have, as a column; null on rows of other kinds."""
        values = pa.concat_arrays([metrics.field(kind).field(field) for kind in kinds])
        start = np.full(len(_KINDS), -1)
        start[[_KINDS.index(kind) for kind in kinds]] = np.arange(len(kinds)) * len(metrics)
        first = start[self.kind]
        return arrays.pick(values, np.where(first < 0, -1, first + self.metric))


def _points(metrics: pa.StructArray) -> _Points:
    _check_oneof(*(metrics.field(kind) for kind in _KINDS))
    lists = {kind: metrics.field(kind).field("data_points") for kind in _KINDS}
    by_kind = {kind: points.values for kind, points in lists.items()}
    metric = np.concatenate([arrays.owners(arrays.counts(points)) for points in lists.values()])
    kind = arrays.owners(np.array([len(points) for points in by_kind.values()]))
    order = np.argsort(metric, kind="stable")
    _check_oneof(*(pa.concat_arrays([by_kind[k].field(f) for k in _NUMBERS]) for f in ("as_double", "as_int")))
    return _Points(by_kind, metric[order], order, kind[order])


def _check_oneof(*members: pa.Array) -> None:
    """Refuse what only protobuf can tell: it keeps the last member sent, ptars all, without their order."""
    if (np.sum([member.is_valid().to_numpy(zero_copy_only=False) for member in members], axis=0) > 1).any():
        raise ValueError("several members of a oneof are set")


def _longs(lists: pa.ListArray, missing: pa.BooleanArray | None = None) -> pa.ListArray:
    values = arrays.longs(arrays.numbers(lists.values))
    return pa.ListArray.from_arrays(lists.offsets, values, type=pa.list_(LONG), mask=missing)


def _buckets(points: _Points, side: str) -> Columns:
    buckets = points.raw(side, _EXPONENTIAL)
    offset, _ = buckets.flatten()
    counts = _longs(buckets.field("bucket_counts"), missing=buckets.is_null())
    return {
        f"{side}_offset": points.place(offset, _EXPONENTIAL),
        f"{side}_bucket_counts": points.place(counts, _EXPONENTIAL),
    }


def _quantiles(lists: pa.ListArray) -> pa.ListArray:
    pairs = [lists.values.field("quantile"), lists.values.field("value")]
    return arrays.lists(lists, pa.StructArray.from_arrays(pairs, fields=list(QUANTILE)), pa.list_(QUANTILE))


def _exemplars(exemplars: pa.StructArray, attributes: pa.MapArray) -> pa.StructArray:
    double, integer = exemplars.field("as_double"), exemplars.field("as_int")
    _check_oneof(double, integer)
    return pa.StructArray.from_arrays(
        [
            arrays.times(exemplars.field("time_unix_nano")),
            double,
            integer,
            arrays.hex_text(exemplars.field("trace_id")),
            arrays.hex_text(exemplars.field("span_id")),
            attributes,
        ],
        fields=list(EXEMPLAR),
    )
