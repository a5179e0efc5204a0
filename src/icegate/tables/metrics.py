"""Table ``metrics``: one row a data point, of any of the five kinds."""

from __future__ import annotations

import pyarrow as pa

from icegate.tables.column import ATTRIBUTES, BOOL, DOUBLE, INT, LONG, STRING, Column, Table
from icegate.tables.common import HEAD, ORIGIN, TAIL, TRACE_CONTEXT

QUANTILE = pa.struct([pa.field("quantile", DOUBLE), pa.field("value", DOUBLE)])

EXEMPLAR = pa.struct(
    [
        pa.field("time_unix_nano", LONG),
        pa.field("value_double", DOUBLE),
        pa.field("value_int", LONG),
        pa.field("trace_id", STRING),
        pa.field("span_id", STRING),
        pa.field("filtered_attributes", ATTRIBUTES),
    ]
)

METRICS = Table(
    name="metrics",
    topic="metrics",
    doc="Metric data points",
    columns=(
        *HEAD,
        *TRACE_CONTEXT,  # always null here: exemplars carry the trace context of a point
        Column("metric_name", STRING, "Name of the metric"),
        Column("metric_type", STRING, "gauge, sum, histogram, exponential_histogram or summary"),
        Column("description", STRING, "Null if empty"),
        Column("unit", STRING, "UCUM unit; null if empty"),
        Column("temporality", INT, "0 unspecified, 1 delta, 2 cumulative; null for gauge and summary"),
        Column("is_monotonic", BOOL, "Sums only"),
        Column("start_time_unix_nano", LONG, "Start of the interval; null if not sent"),
        Column("value_double", DOUBLE, "Gauge or sum with a floating-point value"),
        Column("value_int", LONG, "Gauge or sum with an integer value"),
        Column("count", LONG, "Histograms and summary: number of measurements"),
        Column("sum", DOUBLE, "Histograms and summary: their sum; null if not sent"),
        Column("min", DOUBLE, "Histograms: null if not sent"),
        Column("max", DOUBLE, "Histograms: null if not sent"),
        Column("bucket_counts", pa.list_(LONG), "Histogram: one more than explicit_bounds"),
        Column("explicit_bounds", pa.list_(DOUBLE), "Histogram: upper bounds, inclusive"),
        Column("scale", INT, "Exponential histogram"),
        Column("zero_count", LONG, "Exponential histogram"),
        Column("zero_threshold", DOUBLE, "Exponential histogram"),
        Column("positive_offset", INT, "Exponential histogram; null without positive buckets"),
        Column("positive_bucket_counts", pa.list_(LONG), "Exponential histogram"),
        Column("negative_offset", INT, "Exponential histogram; null without negative buckets"),
        Column("negative_bucket_counts", pa.list_(LONG), "Exponential histogram"),
        Column("quantiles", pa.list_(QUANTILE), "Summary"),
        Column("exemplars", pa.list_(EXEMPLAR), "Sample measurements with their trace context"),
        *ORIGIN,
        Column("flags", LONG, "Bit 0: no recorded value"),
        *TAIL,
    ),
    sort_by=("metric_name", "service_name", "timestamp"),
)
