"""Addresses, in the forms that each library takes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from icegate.errors import ConfigError, StorageError
from icegate.storage import Location, S3Options, path_of
from icegate.storage.engine import register

if TYPE_CHECKING:
    from pathlib import Path

    from s3_server import S3Server


@pytest.mark.parametrize("text", ["/srv/data", "file:///srv/data", "/srv/data/"])
def test_a_folder(text: str) -> None:
    location = Location.parse(text)
    assert location.is_local
    assert location.uri("wal/x") == "file:///srv/data/wal/x"
    assert location.warehouse == "file:///srv/data/warehouse"
    assert path_of(location.uri("k")) == "/srv/data/k"
    assert location.iceberg_properties() == {}


def test_a_relative_folder_is_made_absolute_and_home_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert Location.parse("data").url == str(tmp_path / "data")
    assert Location.parse("~/data").url == "/home/someone/data"


@pytest.mark.parametrize(
    ("text", "uri"), [("s3://b", "s3://b/k"), ("s3://b/", "s3://b/k"), ("s3://b/p/q/", "s3://b/p/q/k")]
)
def test_a_bucket(text: str, uri: str) -> None:
    location = Location.parse(text)
    assert not location.is_local
    assert location.bucket == "b"
    assert location.uri("k") == uri
    assert path_of(location.uri("k")) == uri.removeprefix("s3://")


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///prefix", "gs://bucket", "http://host/x", "S4://x", "/a%20b", "/a#b", "file:///a?b"]
)
def test_an_error_names_the_setting_and_what_was_given(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Location.parse(text)
    assert str(caught.value).startswith("data: ")
    assert repr(text.removeprefix("file://")) in str(caught.value)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file/data"):
        Location.parse(str(tmp_path / "file/data")).open_store()


def test_credentials_are_never_shown() -> None:
    options = S3Options("http://h", "r", "AKIDSHOWN", "SECRETSHOWN", "TOKENSHOWN")
    location = Location.parse("s3://b", options)
    for text in (
        repr(options),
        str(options),
        repr(location),
        str(location),
        f"{location}",
        repr(location.open_store()),
    ):
        assert "SHOWN" not in text


def test_a_location_travels_to_other_processes() -> None:
    location = Location.parse("s3://b/p", S3Options("http://h", "r", "a", "s", "t", path_style=True))
    assert pickle.loads(pickle.dumps(location)) == location  # noqa: S301 - our own bytes
    assert location.iceberg_properties() == {
        "s3.endpoint": "http://h",
        "s3.region": "r",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "s",
        "s3.session-token": "t",
    }


@pytest.mark.parametrize(
    ("endpoint", "plain"), [("http://h:9000", True), ("https://h", False), (None, False), ("", False)]
)
def test_plain_http_is_allowed_only_where_the_endpoint_asks_for_it(endpoint: str | None, plain: bool) -> None:
    assert S3Options(endpoint=endpoint).plain_http is plain


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_arrow_writes_where_the_store_reads(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "local":
        location = Location.parse(str(tmp_path / "with a space"))
    else:
        server: S3Server = request.getfixturevalue("s3")
        location = Location.parse(f"s3://{server.new_bucket()}/p", server.options)
    store = location.open_store()
    store.put_if_absent("d/seen", b"")
    with location.open_filesystem().open_output_stream(path_of(location.uri("d/k"))) as stream:
        stream.write(b"from arrow")
    assert store.get("d/k") == b"from arrow"


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_datafusion_reads_what_the_store_wrote(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datafusion import SessionContext

    if kind == "local":
        location = Location.parse(str(tmp_path / "with a space"))
    else:
        server: S3Server = request.getfixturevalue("s3")
        location = Location.parse(f"s3://{server.new_bucket()}/p", server.options)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1, 2, 3]}), sink)
    location.open_store().put_if_absent("d/k.parquet", bytes(sink.getvalue()))
    context = SessionContext()
    register(context, location)
    assert context.read_parquet(location.uri("d/k.parquet")).count() == 3
