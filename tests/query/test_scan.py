from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from icegate.tables import TABLES
from icegate_query.scan import ParquetScanner

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("pairs", pa.map_(pa.string(), pa.string())),
        pa.field("later", pa.int64()),
    ]
)
ROW = {"text": "t", "pairs": [("a", "b"), ("c", None)]}


@pytest.fixture(params=[True, False], ids=["rewritten", "declared"])
def scanner(request: pytest.FixtureRequest) -> ParquetScanner:
    made = ParquetScanner(SessionContext())
    assert made._rewrites  # the version of datafusion that we pin
    made._rewrites = request.param
    return made


@pytest.mark.parametrize("folder", ["plain", "it's 100%25 é [a] {b} #c ?d"])
@pytest.mark.parametrize("count", [1, 2, 300])
def test_all_rows_of_all_files(tmp_path: Path, scanner: ParquetScanner, folder: str, count: int) -> None:
    (tmp_path / folder).mkdir()
    uris = []
    for number in range(count):
        path = tmp_path / folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist([{"n": number, **ROW}], schema=SCHEMA.remove(3)), path)
        uris.append(f"file://{path}")
    found = scanner.scan(uris, SCHEMA).sort("n").to_arrow_table()
    assert found.schema.types == SCHEMA.types
    assert found.to_pylist() == [{"n": number, **ROW, "later": None} for number in range(count)]


@pytest.mark.parametrize("table", TABLES)
def test_every_type_of_our_tables(tmp_path: Path, scanner: ParquetScanner, table: str) -> None:
    schema = TABLES[table].schema
    now = pa.scalar(1, pa.timestamp("us", "UTC")).as_py()
    row = {"tenant_id": "t", "timestamp": now, "ingested_at": now, "wal_shard": 0, "wal_offset": 0}
    pq.write_table(pa.Table.from_pylist([row], schema=schema), tmp_path / "f.parquet")
    found = scanner.scan([f"file://{tmp_path}/f.parquet"], schema).to_arrow_table()
    assert found.cast(schema) == pa.Table.from_pylist([row], schema=schema)


def test_an_unknown_encoding_of_plans_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icegate_query.scan._PATH_TAG", b"\x1a")
    assert not ParquetScanner(SessionContext())._rewrites
