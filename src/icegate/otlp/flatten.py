"""From resource -> scope -> record, as OTLP nests them, to rows.

Each record gets the index of its request, resource and scope, and what they share is copied to the rows by
those indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icegate.otlp import arrays, limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from icegate.otlp.arrays import Ints
    from icegate.otlp.request import Request

    Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class Walk:
    """A batch of requests, level by level, and where each record belongs.

    Attributes:
        resources: The groups by resource (``ResourceLogs``, ...) of all requests.
        scopes: The groups by scope within them.
        records: The records within those.
        request: Index of each record's request.
        resource: Index into ``resources`` for each record.
        scope: Index into ``scopes`` for each record.
    """

    resources: pa.StructArray
    scopes: pa.StructArray
    records: pa.StructArray
    request: Ints
    resource: Ints
    scope: Ints

    def at(self, records: Ints) -> Walk:
        """The same with other rows: one for each of these indices of ``records``."""
        return Walk(
            self.resources,
            self.scopes,
            self.records,
            self.request[records],
            self.resource[records],
            self.scope[records],
        )

    @property
    def resource_attributes(self) -> pa.ListArray:
        """``KeyValue`` lists of ``resources``."""
        return _child(self.resources, "resource", "attributes")

    @property
    def scope_attributes(self) -> pa.ListArray:
        """``KeyValue`` lists of ``scopes``."""
        return _child(self.scopes, "scope", "attributes")


def walk(batch: pa.RecordBatch, scopes: str, records: str) -> Walk:
    """Unnest a batch of requests whose levels have these field names."""
    groups = batch.column(0)
    resources = groups.values
    scope_lists = resources.field(scopes)
    record_lists = scope_lists.values.field(records)
    scope = arrays.owners(arrays.counts(record_lists))
    resource = arrays.owners(arrays.counts(scope_lists))[scope]
    request = arrays.owners(arrays.counts(groups))[resource]
    return Walk(resources, scope_lists.values, record_lists.values, request, resource, scope)


def shared(
    walked: Walk,
    requests: Sequence[Request],
    resource: pa.MapArray,
    scope: pa.MapArray,
    *others: tuple[Columns, Ints],
) -> Columns:
    """The columns that say whose the rows are, when they came, and what they have in common.

    Args:
        walked: The rows.
        requests: Those that ``walked.request`` counts.
        resource: Attributes of ``walked.resources``.
        scope: Attributes of ``walked.scopes``.
        others: More columns shared by rows, and the index into them for each row.

    Raises:
        TooExpansive: The copies would be larger than ``MAX_EXPANSION``.
    """
    by_resource = {
        "service_name": service_names(resource),
        "resource_attributes": resource,
        "resource_schema_url": arrays.blank_to_null(walked.resources.field("schema_url")),
    }
    by_scope = {
        "scope_name": arrays.blank_to_null(_child(walked.scopes, "scope", "name")),
        "scope_version": arrays.blank_to_null(_child(walked.scopes, "scope", "version")),
        "scope_attributes": scope,
        "scope_schema_url": arrays.blank_to_null(walked.scopes.field("schema_url")),
    }
    levels = ((by_resource, walked.resource), (by_scope, walked.scope), *others)
    _check_expansion(levels)
    tenants = pa.array([request.tenant for request in requests], pa.string())
    return {
        "tenant_id": arrays.pick(tenants, walked.request),
        "ingested_at": arrays.timestamps(received(walked, requests)),
        **{name: arrays.pick(values, index) for columns, index in levels for name, values in columns.items()},
    }


def received(walked: Walk, requests: Sequence[Request]) -> Ints:
    """When the request of each row came, microseconds since the epoch."""
    return np.array([request.received_at for request in requests], np.int64)[walked.request]


def timestamps(nanos: Ints, walked: Walk, requests: Sequence[Request]) -> pa.TimestampArray:
    """Nanoseconds as timestamps; the time of receipt where 0."""
    return arrays.timestamps(np.where(nanos != 0, nanos // 1000, received(walked, requests)))


def service_names(resources: pa.MapArray) -> pa.StringArray:
    """The first attribute ``service.name`` of each resource; null if there is none."""
    at = np.flatnonzero(pc.equal(resources.keys, "service.name").to_numpy(zero_copy_only=False))
    owner, first = np.unique(arrays.owners(arrays.counts(resources))[at], return_index=True)
    index = np.full(len(resources), -1)
    index[owner] = at[first]
    return arrays.pick(resources.items, index)


def _check_expansion(levels: Iterable[tuple[Columns, Ints]]) -> None:
    size = 0
    for columns, index in levels:
        for values in columns.values():
            sizes = _sizes(values)
            size += int(sizes @ np.bincount(index, minlength=len(sizes)))
    if size > limits.MAX_EXPANSION:
        raise limits.TooExpansive(size)


def _sizes(values: pa.Array) -> Ints:
    if not pa.types.is_map(values.type):
        return arrays.counts(values).astype(np.int64)
    bounds = arrays.offsets(values)
    ends = arrays.offsets(values.keys)[bounds].astype(np.int64) + arrays.offsets(values.items)[bounds]
    return np.diff(ends)


def _child(group: pa.StructArray, message: str, field: str) -> pa.Array:
    """A field of a message that may be absent; then it holds the field's default."""
    return group.field(message).field(field)
