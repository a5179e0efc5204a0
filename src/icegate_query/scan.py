"""One scan over many Parquet files.

DataFusion's Python API makes scans of a single path. Its plans can be written out and read back, though, and the
paths of a scan are one repeated field there, so a plan of one path is rewritten to one of many: no I/O, no inferred
schema, no statement. That leans on the encoding of one version of DataFusion, so it is tried once at start, and
where it does not hold the scan is made by CREATE EXTERNAL TABLE, which reads every file's footer for its schema.
"""

from __future__ import annotations

import logging
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import col, lit
from datafusion.plan import LogicalPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datafusion import DataFrame, SessionContext

_log = logging.getLogger(__name__)

# Protobuf: the message's only field is 1, the listing scan; the scan's field 2 is its paths. Both hold lengths.
_SCAN_TAG: Final = b"\x0a"
_PATH_TAG: Final = b"\x12"
_CONTINUED: Final = 0x80

_PROBE: Final = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("pairs", pa.map_(pa.string(), pa.string())),
        pa.field("added_later", pa.int64()),
    ]
)


class ParquetScanner:
    """Scans of many files in one engine session."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._rewrites = self._rewriting_works()
        if not self._rewrites:
            _log.warning("this version of datafusion writes plans in another form: scans start more slowly")

    def scan(self, uris: Sequence[str], schema: pa.Schema) -> DataFrame:
        """All rows of the files, in the columns of ``schema``; a column that a file lacks is null.

        Args:
            uris: at least one file, as the catalog names it.
            schema: columns are matched by name.
        """
        paths = [_quoted(each) for each in uris]
        return self._rewritten(paths, schema) if self._rewrites else self._declared(paths, schema)

    def _rewritten(self, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
        one = self._context.read_parquet(paths[0], schema=schema).logical_plan().to_bytes(self._context)
        body, rest = _unpack(one, _SCAN_TAG)
        first, after_paths = _unpack(body, _PATH_TAG)
        if rest or first != paths[0].encode():
            raise ValueError("not the encoding of a listing scan")
        many = b"".join(_pack(_PATH_TAG, path.encode()) for path in paths) + after_paths
        plan = LogicalPlan.from_bytes(self._context, _pack(_SCAN_TAG, many))
        return self._context.create_dataframe_from_logical_plan(plan)

    def _declared(self, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
        name = f"files_{uuid.uuid4().hex}"
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        self._context.sql(f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION ({listed})")
        found = self._context.table(name)
        self._context.deregister_table(name)
        present = set(found.schema().names)
        return found.select(
            *(
                (col(f'"{each.name}"') if each.name in present else lit(None)).cast(each.type).alias(each.name)
                for each in schema
            )
        )

    def _rewriting_works(self) -> bool:
        rows = [{"text": "a", "pairs": [("k", "v")]}, {"text": "b", "pairs": None}]
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, f"{number}.parquet") for number in range(len(rows))]
            for file, row in zip(files, rows, strict=True):
                pq.write_table(pa.Table.from_pylist([row], schema=_PROBE.remove(2)), file)
            try:
                found = self._rewritten([_quoted(f"file://{each}") for each in files], _PROBE).sort("text")
                return bool(found.to_arrow_table() == pa.Table.from_pylist(rows, schema=_PROBE))
            except Exception:  # noqa: BLE001 - whatever it is, there is the other way
                _log.exception("the scan over rewritten plans failed its test")
                return False


def _quoted(uri: str) -> str:
    """DataFusion takes addresses as URLs and decodes them; Iceberg names objects as they are."""
    scheme, _, path = uri.partition("://")
    return f"{scheme}://{quote(path)}"


def _pack(tag: bytes, content: bytes) -> bytes:
    length, size = len(content), bytearray()
    while length >= _CONTINUED:
        size.append(length & 0x7F | _CONTINUED)
        length >>= 7
    return tag + bytes([*size, length]) + content


def _unpack(message: bytes, tag: bytes) -> tuple[bytes, bytes]:
    """The content of a message's first field, and what follows it."""
    if not message.startswith(tag):
        raise ValueError("not the encoding of a listing scan")
    length = shift = 0
    at = len(tag)
    while True:
        byte = message[at]
        length |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < _CONTINUED:
            return message[at : at + length], message[at + length :]
