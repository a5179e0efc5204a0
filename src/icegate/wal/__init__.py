"""The write-ahead log: dense offsets per (topic, shard), each created once on object storage.

The protocol and the reasons for its rules: docs/durability.md.
"""

from icegate.wal.append import Appender
from icegate.wal.keys import Boundary, Position, SegmentKey, Shard
from icegate.wal.read import Listed, Tail, list_tail, read_footer, read_segment, shards
from icegate.wal.segment import Batch, Encoded, Footer, Segment, TenantRows, decode, encode

__all__ = [
    "Appender",
    "Batch",
    "Boundary",
    "Encoded",
    "Footer",
    "Listed",
    "Position",
    "Segment",
    "SegmentKey",
    "Shard",
    "Tail",
    "TenantRows",
    "decode",
    "encode",
    "list_tail",
    "read_footer",
    "read_segment",
    "shards",
]
