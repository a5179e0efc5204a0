"""Settings: where they come from, and what is said of wrong ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from icegate import config
from icegate.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(config.ENV_PREFIX)]:
        monkeypatch.delenv(name)


def test_defaults() -> None:
    settings = config.load()
    assert (settings.grpc_port, settings.http_port, settings.sql_port) == (4317, 4318, 4319)
    assert settings.data == "icegate-data"
    assert settings.compactor.every == 30.0


def test_a_flag_beats_the_environment_beats_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "icegate.toml").write_text(
        'grpc_port = 1\nhttp_port = 1\nsql_port = 1\n[wal]\nshard = 3\nlinger = "50ms"\n'
    )
    monkeypatch.setenv("ICEGATE_GRPC_PORT", "2")
    monkeypatch.setenv("ICEGATE_HTTP_PORT", "2")
    monkeypatch.setenv("ICEGATE_WAL__SHARD", "4")
    settings = config.load(grpc_port=3, sql_port=None)
    assert (settings.grpc_port, settings.http_port, settings.sql_port) == (3, 2, 1)
    assert (settings.wal.shard, settings.wal.linger) == (4, 0.05)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("5m", 300.0), ("200ms", 0.2), ("1.5h", 5400.0), ("7", 7.0), (" 2 s ", 2.0)]
)
def test_durations(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
    monkeypatch.setenv("ICEGATE_COMPACTOR__EVERY", text)
    assert config.load().compactor.every == seconds


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("ICEGATE_GRPC_PORT", "70000", "grpc_port"),
        ("ICEGATE_HTTP_PORT", "http", "http_port"),
        ("ICEGATE_WAL__LINGER", "3 weeks", "wal.linger"),
        ("ICEGATE_WAL__SHARD", "-1", "wal.shard"),
        ("ICEGATE_DEFAULT_TENANT", "a/b", "default_tenant"),
        ("ICEGATE_GATEWAY__MAX_MESSAGE_BYTES", "0", "gateway.max_message_bytes"),
    ],
)
def test_a_wrong_value_is_refused_by_key_and_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, key: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as refused:
        config.load()
    assert str(refused.value).startswith(f"{key}: ")
    assert value in str(refused.value)
    assert name in str(refused.value)


def test_several_wrong_values_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEGATE_GRPC_PORT", "x")
    monkeypatch.setenv("ICEGATE_WAL__SHARD", "y")
    with pytest.raises(ConfigError) as refused:
        config.load()
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == ["grpc_port", "wal.shard"]


@pytest.mark.parametrize("text", ["grpcport = 1", "[wal]\nlingre = 1", "[nothing]\nx = 1"])
def test_an_unknown_key_in_the_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "icegate.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"grpcport|wal\.lingre|nothing"):
        config.load()


def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEGATE_GRPCPORT", "1")
    with pytest.raises(ConfigError, match="ICEGATE_GRPCPORT"):
        config.load()


def test_broken_toml_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "icegate.toml").write_text("grpc_port = ")
    with pytest.raises(ConfigError, match=r"icegate\.toml"):
        config.load()


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEGATE_S3__SECRET_ACCESS_KEY", "hush")
    assert "hush" not in repr(config.load())


def test_every_key_has_a_variable_that_sets_it() -> None:
    assert "s3.secret_access_key" in config.known_keys()
    assert config.variable("wal.append_timeout") == "ICEGATE_WAL__APPEND_TIMEOUT"


def test_an_empty_default_tenant_means_none_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEGATE_DEFAULT_TENANT", "")
    assert config.load().default_tenant == ""


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("ICEGATE_GATEWAY__ACK_TIMEOUT", "0", "gateway.ack_timeout"),
        ("ICEGATE_WAL__APPEND_TIMEOUT", "0s", "wal.append_timeout"),
        ("ICEGATE_QUERY__TIMEOUT", "0", "query.timeout"),
    ],
)
def test_a_time_limit_of_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, key: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{key}: "):
        config.load()


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_time_is_finite(tmp_path: Path, value: str) -> None:
    (tmp_path / "icegate.toml").write_text(f"[gateway]\nack_timeout = {value}")
    with pytest.raises(ConfigError, match=r"^gateway\.ack_timeout: "):
        config.load()


def test_gathering_longer_than_a_call_may_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEGATE_WAL__LINGER", "4400ms")
    assert config.load().wal.linger == 4.4
    monkeypatch.setenv("ICEGATE_WAL__LINGER", "4500ms")
    with pytest.raises(ConfigError, match=r"^wal\.linger: .*gateway\.ack_timeout"):
        config.load()


@pytest.mark.parametrize(
    "text",
    ["[s3]\nsession_token = 4711", '[s3]\nregion = ["4711"]', '[catalog]\nuri = ["4711"]', 's3 = "4711"'],
)
def test_a_wrong_value_where_secrets_are_is_not_repeated(tmp_path: Path, text: str) -> None:
    (tmp_path / "icegate.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        config.load()
    assert "4711" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "icegate.toml").write_bytes(b'data = "\xff"')
    with pytest.raises(ConfigError, match=r"^icegate\.toml: "):
        config.load()


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql+psycopg://me:hush@host/db", "postgresql+psycopg://me:***@host/db"),
        ("postgresql+psycopg://me:h:u/sh@host/db", "postgresql+psycopg://me:***@host/db"),
        (
            "postgresql+psycopg://host/db?user=me&password=hush&x=1",
            "postgresql+psycopg://host/db?user=me&password=***&x=1",
        ),
        ("postgresql+psycopg://me@host:5432/db", "postgresql+psycopg://me@host:5432/db"),
        ("sqlite:////data/catalog.db", "sqlite:////data/catalog.db"),
    ],
)
def test_an_address_is_shown_without_its_password(uri: str, shown: str) -> None:
    assert config.shown("catalog.uri", uri) == shown
