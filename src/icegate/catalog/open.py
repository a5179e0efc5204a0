"""Open the catalog: the right one for this log, with its tables in place."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError, TableAlreadyExistsError
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from icegate.catalog.position import POSITION_PROPERTY
from icegate.catalog.schema import iceberg_schema, partition_spec, sort_order
from icegate.errors import CatalogMismatch, ConfigError, ObjectNotFound
from icegate.storage.location import WAREHOUSE
from icegate.tables import TABLES
from icegate.wal import Position

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from icegate.storage import Location, ObjectStore
    from icegate.tables import Table

NAMESPACE: Final = "icegate"
#: The object that says which catalog this log belongs to.
CATALOG_ID_KEY: Final = "catalog-id"
_CATALOG_ID_PROPERTY: Final = "icegate.catalog-id"


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """Where the catalog is: an SQLAlchemy address; None = an SQLite file in the (local) data folder."""

    uri: str | None = field(default=None, repr=False)  # it may hold a password


def open_catalog(location: Location, options: CatalogOptions | None = None) -> Catalog:
    """Open the catalog of a location, creating the four tables where they are missing.

    Raises:
        ConfigError: no catalog can be opened with these settings.
        CatalogMismatch: the log belongs to another catalog.
    """
    uri = (options or CatalogOptions()).uri
    if uri is None:
        if not location.is_local:
            raise ConfigError(
                "catalog.uri: not set, and data is on S3; name a database, for example"
                " sqlite:////var/lib/icegate/catalog.db (one host) or postgresql+psycopg://user@host/icegate"
            )
        uri = f"sqlite:///{location.url}/catalog.db"
    store = location.open_store()
    catalog = _connect(uri, location)
    _bind(catalog, store)
    for table in TABLES.values():
        _create_if_missing(catalog, table)
    return catalog


def identifier(table: Table) -> tuple[str, str]:
    """The table's name in the catalog."""
    return NAMESPACE, table.name


def _connect(uri: str, location: Location) -> Catalog:
    try:
        address = make_url(uri)
    except ArgumentError:
        raise ConfigError("catalog.uri: not an address such as sqlite:... or postgresql+psycopg:...") from None
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigError(f"catalog.uri: {address!r} is neither sqlite:... nor postgresql+psycopg:...")
    properties = {"uri": uri, "warehouse": location.warehouse, **location.iceberg_properties()}
    if location.is_local:
        properties["py-io-impl"] = "icegate.catalog.fileio.DurableFileIO"
    try:
        for _ in range(2):
            # Processes that open a new database at once race to create its two tables.
            with suppress(SQLAlchemyError):
                return SqlCatalog(NAMESPACE, **properties)
        return SqlCatalog(NAMESPACE, **properties)
    except (SQLAlchemyError, ImportError) as error:
        raise ConfigError(f"catalog.uri: cannot open {address!r}: {error}") from error


def _bind(catalog: Catalog, store: ObjectStore) -> None:
    """Make sure that log and catalog name each other; first come, first bound.

    The log's id comes first: a catalog with an id then always belongs to a log that has it too, so a log without one
    cannot take over positions that were reached in another. A log that has an id and no tables was left between the
    two steps, and may be bound to a new catalog.
    """
    there = _log_id(store)
    here = _namespace_id(catalog)
    if there is None:
        if here is not None and _log_id(store) is None:  # looked again: another process may be doing all this now
            raise CatalogMismatch(
                f"catalog.uri names catalog {here}, which belongs to another log: give this one a new catalog"
            )
        store.put_if_absent(CATALOG_ID_KEY, str(uuid.uuid4()).encode())
        there = store.get(CATALOG_ID_KEY).decode()
    if here is None:
        used = next(iter(store.list_after(f"{WAREHOUSE}/")), None) is not None
        here = _namespace_id(catalog)  # looked again: so it is if another process has made these tables
        if here is None and used:
            raise CatalogMismatch(
                f"this log belongs to catalog {there}, and catalog.uri names one that is new:"
                " point it at the catalog that the log was started with"
            )
    if here is None:
        with suppress(NamespaceAlreadyExistsError, IntegrityError):  # another process was first, with the same id
            catalog.create_namespace(NAMESPACE, {_CATALOG_ID_PROPERTY: there})
        here = _namespace_id(catalog)
    if here is None:
        raise CatalogMismatch(f"namespace {NAMESPACE!r} of this catalog was not made by IceGate: use another catalog")
    if there != here:
        raise CatalogMismatch(f"this log belongs to catalog {there}, and catalog.uri names catalog {here}")


def _log_id(store: ObjectStore) -> str | None:
    try:
        return store.get(CATALOG_ID_KEY).decode()
    except ObjectNotFound:
        return None


def _namespace_id(catalog: Catalog) -> str | None:
    try:
        return catalog.load_namespace_properties(NAMESPACE).get(_CATALOG_ID_PROPERTY)
    except NoSuchNamespaceError:
        return None


def _create_if_missing(catalog: Catalog, table: Table) -> None:
    name = identifier(table)
    if catalog.table_exists(name):
        return
    schema = iceberg_schema(table)
    properties = {
        "format-version": "2",
        "commit.retry.num-retries": "0",  # a blind retry commits twice
        "write.parquet.compression-codec": "zstd",
        POSITION_PROPERTY: Position().to_json(),
        "comment": table.doc,
    }
    for column in table.bloom_filters:
        properties[f"write.parquet.bloom-filter-enabled.column.{column}"] = "true"
    with suppress(TableAlreadyExistsError):  # another process was first, with the same definition
        catalog.create_table(
            name,
            schema=schema,
            partition_spec=partition_spec(schema),
            sort_order=sort_order(table, schema),
            properties=properties,
        )
