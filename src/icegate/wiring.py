"""From settings to what each part takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icegate.errors import ConfigError
from icegate.gateway.export import ExportOptions
from icegate.gateway.group_commit import CommitOptions
from icegate.gateway.server import GatewayOptions
from icegate.storage import Location, S3Options

if TYPE_CHECKING:
    from pydantic import SecretStr

    from icegate.catalog.open import CatalogOptions
    from icegate.config import Settings
    from icegate_compactor import CompactOptions, SparkOptions
    from icegate_query import QueryOptions


def location(settings: Settings) -> Location:
    """Where the data lives."""
    s3 = settings.s3
    return Location.parse(
        settings.data,
        S3Options(
            endpoint=s3.endpoint,
            region=s3.region,
            access_key_id=s3.access_key_id,
            secret_access_key=_open(s3.secret_access_key),
            session_token=_open(s3.session_token),
            path_style=s3.path_style,
        ),
    )


def require_data(settings: Settings) -> None:
    """For what only reads or moves data on: a folder that is not there is a mistake, not an empty lake.

    Raises:
        ConfigError: no such folder.
    """
    place = location(settings)
    if place.is_local and not Path(place.url).is_dir():
        raise ConfigError(
            f"data: there is no folder {place.url}; `icegate up` and `icegate gateway` make one, or set --data"
        )


def catalog_options(settings: Settings) -> CatalogOptions:
    """Where the catalog is."""
    from icegate.catalog.open import CatalogOptions

    return CatalogOptions(uri=settings.catalog.uri)


def default_tenant(settings: Settings) -> str | None:
    """The tenant of requests that name none; None if they are refused."""
    return settings.default_tenant or None


def gateway_options(settings: Settings) -> GatewayOptions:
    """How the gateway runs."""
    return GatewayOptions(
        host=settings.host,
        grpc_port=settings.grpc_port,
        http_port=settings.http_port,
        shard=settings.wal.shard,
        max_inflight_bytes=settings.gateway.max_inflight_bytes,
        export=ExportOptions(
            default_tenant=default_tenant(settings),
            ack_timeout=settings.gateway.ack_timeout,
            max_message_bytes=settings.gateway.max_message_bytes,
        ),
        commit=CommitOptions(
            linger=settings.wal.linger,
            max_bytes=settings.wal.max_segment_bytes,
            append_timeout=settings.wal.append_timeout,
        ),
    )


def query_options(settings: Settings) -> QueryOptions:
    """How the query service runs."""
    from icegate_query import QueryOptions

    query = settings.query
    return QueryOptions(
        timeout_seconds=query.timeout,
        max_rows=query.max_rows,
        memory_bytes=query.memory_bytes,
        tail_cache_bytes=query.tail_cache_bytes,
        max_tail_bytes=query.max_tail_bytes,
    )


def compact_options(settings: Settings) -> CompactOptions:
    """How compaction runs."""
    from icegate_compactor import CompactOptions

    return CompactOptions(
        max_plan_bytes=settings.compactor.max_plan_bytes, target_file_bytes=settings.compactor.target_file_bytes
    )


def spark_options(settings: Settings) -> SparkOptions:
    """Which Spark, which Java."""
    from icegate_compactor import SparkOptions

    spark = settings.spark
    chosen = {} if spark.master is None else {"master": spark.master}
    return SparkOptions(java_home=spark.java_home, driver_memory=spark.driver_memory, conf=spark.conf, **chosen)


def _open(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
