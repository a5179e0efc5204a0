"""Every setting arrives where it is used."""

from __future__ import annotations

from typing import Any

from icegate import config, wiring
from icegate.catalog.open import CatalogOptions
from icegate.gateway.export import ExportOptions
from icegate.gateway.group_commit import CommitOptions
from icegate.gateway.server import GatewayOptions
from icegate.storage import S3Options
from icegate_compactor import CompactOptions, SparkOptions
from icegate_query import QueryOptions

SECTIONS: dict[str, dict[str, Any]] = {
    "catalog": {"uri": "sqlite:///x"},
    "s3": {
        "endpoint": "http://e",
        "region": "r",
        "access_key_id": "a",
        "secret_access_key": "s",
        "session_token": "t",
        "path_style": True,
    },
    "wal": {"shard": 7, "linger": 0.25, "max_segment_bytes": 11, "append_timeout": 2.5},
    "gateway": {"max_message_bytes": 12, "max_inflight_bytes": 13, "ack_timeout": 3.5},
    "compactor": {"every": 9, "max_plan_bytes": 14, "target_file_bytes": 15},
    "spark": {"master": "local[3]", "java_home": "/j", "driver_memory": "3g", "conf": {"k": "v"}},
    "query": {"timeout": 16, "max_rows": 17, "memory_bytes": 18, "tail_cache_bytes": 19, "max_tail_bytes": 20},
}


def test_every_setting_arrives() -> None:
    settings = config.load(
        data="s3://b/p", host="h", grpc_port=1, http_port=2, sql_port=3, default_tenant="d", **SECTIONS
    )
    given = {f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys}
    assert {key for key in config.known_keys() if "." in key} == given
    place = wiring.location(settings)
    assert (place.url, place.s3) == ("s3://b/p", S3Options("http://e", "r", "a", "s", "t", path_style=True))
    assert wiring.catalog_options(settings) == CatalogOptions("sqlite:///x")
    assert wiring.gateway_options(settings) == GatewayOptions(
        host="h",
        grpc_port=1,
        http_port=2,
        shard=7,
        max_inflight_bytes=13,
        export=ExportOptions("d", 3.5, 12),
        commit=CommitOptions(0.25, 11, 2.5),
    )
    assert wiring.query_options(settings) == QueryOptions(16, 17, 18, 19, 20)
    assert wiring.compact_options(settings) == CompactOptions(14, 15)
    assert wiring.spark_options(settings) == SparkOptions("local[3]", "/j", "3g", {"k": "v"})


def test_no_default_tenant_is_none() -> None:
    assert wiring.default_tenant(config.load(default_tenant="")) is None
