"""The catalog: the right one for this log, with its tables as defined."""

from __future__ import annotations

import multiprocessing
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table.sorting import NullOrder, SortDirection

from catalog.staged import stage
from icegate.catalog.fileio import DurableFileIO
from icegate.catalog.open import CATALOG_ID_KEY, CatalogOptions, identifier, open_catalog
from icegate.catalog.position import POSITION_PROPERTY, base_of
from icegate.catalog.publish import publish
from icegate.catalog.schema import iceberg_schema
from icegate.errors import CatalogMismatch, ConfigError
from icegate.storage import Location, path_of
from icegate.tables import LOGS, TABLES, Column, Table
from icegate.wal import Position

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from s3_server import S3Server


def plain(kind: pa.DataType) -> pa.DataType:
    """A type without what Arrow only spells differently (large strings, field ids, child names, nullability)."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain(field.type)) for field in kind])
    return kind


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_is_as_it_is_defined(catalog: Catalog, table: Table) -> None:
    created = catalog.load_table(("icegate", table.name))
    schema = created.schema()
    assert [field.name for field in schema.fields] == [column.name for column in table.columns]
    arrow = schema_to_pyarrow(schema)
    for column, field in zip(table.columns, schema.fields, strict=True):
        assert plain(arrow.field(column.name).type) == plain(column.type), column.name
        assert field.required is column.required, column.name
        assert field.doc == column.doc, column.name
    for field in schema_to_pyarrow(schema):
        if pa.types.is_map(field.type):
            assert field.type.item_field.nullable, field.name
        if pa.types.is_list(field.type):
            assert field.type.value_field.nullable, field.name

    names = {field.field_id: field.name for field in schema.fields}
    assert [(names[f.source_id], str(f.transform), f.name, f.field_id) for f in created.spec().fields] == [
        ("tenant_id", "identity", "tenant_id", 1000),
        ("timestamp", "day", "timestamp_day", 1001),
    ]
    order = created.sort_order().fields
    assert tuple(names[f.source_id] for f in order) == table.sort_by
    assert {(str(f.transform), f.direction, f.null_order) for f in order} == {
        ("identity", SortDirection.ASC, NullOrder.NULLS_LAST)
    }
    bloom = {name for name in created.properties if "bloom-filter" in name}
    assert bloom == {f"write.parquet.bloom-filter-enabled.column.{name}" for name in table.bloom_filters}
    assert created.properties["commit.retry.num-retries"] == "0"
    assert created.properties["write.parquet.compression-codec"] == "zstd"
    assert created.properties["comment"] == table.doc
    assert created.metadata.format_version == 2
    base = base_of(created)
    assert (base.position, base.snapshot_id, base.uuid) == (Position(), None, created.metadata.table_uuid)


def test_a_type_that_iceberg_lacks_is_an_error() -> None:
    table = Table("t", "logs", "", (Column("odd", pa.duration("s"), ""),), ())
    with pytest.raises(TypeError, match="duration"):
        iceberg_schema(table)


def test_field_ids_are_unique() -> None:
    for table in TABLES.values():
        schema = iceberg_schema(table)
        assert len(schema.field_ids) == len(set(schema.field_ids)) == schema.highest_field_id


def test_opening_again_changes_nothing(location: Location, catalog: Catalog) -> None:
    before = {name: catalog.load_table(("icegate", name)).metadata_location for name in TABLES}
    publish(catalog, LOGS, base_of(catalog.load_table(identifier(LOGS))), [], Position({0: 3}))
    again = open_catalog(location)
    after = {name: again.load_table(("icegate", name)).metadata_location for name in TABLES}
    again.close()
    assert {name for name in TABLES if before[name] != after[name]} == {"logs"}
    assert base_of(again.load_table(identifier(LOGS))).position == Position({0: 3})
    again.close()


def test_threads_that_open_a_new_catalog_at_once_get_the_same_one(tmp_path: Path) -> None:
    for attempt in range(6):
        location = Location.parse(str(tmp_path / str(attempt)))
        barrier = Barrier(4)

        def go(location: Location = location, barrier: Barrier = barrier) -> dict[str, str]:
            barrier.wait(30)
            catalog = open_catalog(location)
            found = {name: str(catalog.load_table(("icegate", name)).metadata.table_uuid) for name in TABLES}
            catalog.close()
            return found

        with ThreadPoolExecutor(4) as pool:
            each = [future.result() for future in [pool.submit(go) for _ in range(4)]]
        assert all(found == each[0] for found in each)


def _open(root: str) -> str:
    catalog = open_catalog(Location.parse(root))
    found = str(catalog.load_table(identifier(LOGS)).metadata.table_uuid)
    catalog.close()
    return found


def test_processes_that_open_a_new_catalog_at_once_get_the_same_one(tmp_path: Path) -> None:
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        assert len(set(pool.map(_open, [str(tmp_path / "data")] * 2, chunksize=1))) == 1


def sqlite(path: Path) -> CatalogOptions:
    return CatalogOptions(f"sqlite:///{path}")


def test_a_new_catalog_on_an_old_log_is_refused(location: Location, catalog: Catalog, tmp_path: Path) -> None:
    assert catalog.table_exists(("icegate", "logs"))
    with pytest.raises(CatalogMismatch, match="belongs to catalog"):
        open_catalog(location, sqlite(tmp_path / "new.db"))
    open_catalog(location).close()


def test_the_catalog_of_another_log_is_refused(tmp_path: Path) -> None:
    one, other = (Location.parse(str(tmp_path / name)) for name in ("one", "other"))
    open_catalog(one, sqlite(tmp_path / "one.db")).close()
    open_catalog(other, sqlite(tmp_path / "other.db")).close()
    with pytest.raises(CatalogMismatch, match="belongs to catalog"):
        open_catalog(one, sqlite(tmp_path / "other.db"))


def test_a_new_log_cannot_take_over_the_positions_of_another(tmp_path: Path) -> None:
    one, new = (Location.parse(str(tmp_path / name)) for name in ("one", "new"))
    open_catalog(one, sqlite(tmp_path / "one.db")).close()
    with pytest.raises(CatalogMismatch, match="belongs to another log"):
        open_catalog(new, sqlite(tmp_path / "one.db"))
    assert list(new.open_store().list_after("warehouse/")) == []
    open_catalog(new, sqlite(tmp_path / "new.db")).close()


def test_a_first_open_that_was_cut_short_can_be_repeated(location: Location) -> None:
    store = location.open_store()
    store.put_if_absent(CATALOG_ID_KEY, b"left-behind")
    store.put_if_absent("wal/logs/shards/0000", b"")  # gateways need no catalog
    catalog = open_catalog(location)
    assert catalog.load_namespace_properties("icegate") == {"icegate.catalog-id": "left-behind"}
    catalog.close()


def test_a_namespace_of_somebody_else_is_refused(location: Location, tmp_path: Path) -> None:
    foreign = SqlCatalog("icegate", uri=f"sqlite:///{tmp_path}/foreign.db", warehouse="file:///nowhere")
    foreign.create_namespace("icegate", {"owner": "somebody"})
    foreign.close()
    with pytest.raises(CatalogMismatch, match="was not made by IceGate"):
        open_catalog(location, sqlite(tmp_path / "foreign.db"))


def test_data_on_s3_needs_an_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^catalog\.uri: "):
        open_catalog(Location.parse("s3://bucket/p"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "uri",
    ["mysql://u:hidden@h/d", "nonsense hidden", "sqlite:////nowhere/at/all/hidden.db", "postgresql+no://u:hidden@h/d"],
)
def test_a_catalog_that_cannot_be_opened_names_the_setting(location: Location, uri: str) -> None:
    with pytest.raises(ConfigError, match=r"^catalog\.uri: ") as caught:
        open_catalog(location, CatalogOptions(uri))
    assert ":hidden@" not in str(caught.value)
    assert "hidden" not in repr(CatalogOptions(uri))


def test_metadata_is_on_the_disk_before_the_catalog_points_at_it(
    location: Location, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = base_of(catalog.load_table(identifier(LOGS)))
    files = stage(catalog, LOGS, 1, "a")
    synced: list[str] = []
    real = os.fsync

    def record(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    publish(catalog, LOGS, base, files, Position({0: 1}))
    table = catalog.load_table(identifier(LOGS))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    written = [table.metadata_location, snapshot.manifest_list]
    written += [manifest.manifest_path for manifest in snapshot.manifests(table.io)]
    for address in written:
        path = path_of(address)
        assert path in synced
        assert synced.index(path) < len(synced) - 1 - synced[::-1].index(str(Path(path).parent))
    assert isinstance(table.io, DurableFileIO)
    assert location.url in path_of(table.metadata_location)


def test_an_output_file_knows_itself(tmp_path: Path) -> None:
    output = DurableFileIO().new_output(f"file://{tmp_path}/deep/file")
    assert not output.exists()
    with output.create() as stream:
        stream.write(b"12345")
    assert output.exists()
    assert len(output) == 5
    with output.to_input_file().open() as stream:
        assert stream.read() == b"12345"
    with pytest.raises(FileExistsError):
        output.create()


@pytest.mark.parametrize("name", ["with a space", "plus+and&", "é"])
def test_a_folder_may_have_an_unusual_name(tmp_path: Path, name: str) -> None:
    location = Location.parse(str(tmp_path / name))
    catalog = open_catalog(location)
    publish(
        catalog, LOGS, base_of(catalog.load_table(identifier(LOGS))), stage(catalog, LOGS, 1, "a"), Position({0: 1})
    )
    catalog.close()
    again = open_catalog(location)
    assert again.load_table(identifier(LOGS)).scan().count() == 1
    again.close()


def test_data_on_s3(s3: S3Server, tmp_path: Path) -> None:
    location = Location.parse(f"s3://{s3.new_bucket()}/{uuid.uuid4().hex}", s3.options)
    catalog = open_catalog(location, sqlite(tmp_path / "catalog.db"))
    end = Position({0: 1})
    publish(catalog, LOGS, base_of(catalog.load_table(identifier(LOGS))), stage(catalog, LOGS, 1, "a"), end)
    catalog.close()
    again = open_catalog(location, sqlite(tmp_path / "catalog.db"))
    table = again.load_table(identifier(LOGS))
    assert table.scan().count() == 1
    assert table.properties[POSITION_PROPERTY] == end.to_json()
    assert table.metadata_location.startswith(location.warehouse)
    again.close()
