"""Where the data lives, in the forms that each library wants."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from icegate.errors import ConfigError
from icegate.storage.local import LocalStore
from icegate.storage.remote import s3_store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from icegate.storage.port import ObjectStore

#: Iceberg's own folder below the data location; the WAL's is ``wal/`` (see icegate.wal.keys).
WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach S3. What is None is left to the environment (``AWS_*``)."""

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool = False

    @property
    def plain_http(self) -> bool:
        """Whether the endpoint is plain HTTP."""
        return bool(self.endpoint) and str(self.endpoint).startswith("http://")


@dataclass(frozen=True, slots=True)
class Location:
    """A local folder, or ``s3://bucket/prefix``. Plain data: Spark sends it to tasks."""

    url: str
    s3: S3Options = S3Options()

    @classmethod
    def parse(cls, text: str, s3: S3Options | None = None) -> Location:
        """From what a user writes after ``--data``.

        Raises:
            ConfigError: a scheme other than ``s3`` or ``file``, no bucket, or a path that is not fit for an address.
        """
        scheme = urlsplit(text).scheme if "://" in text else ""
        if scheme == "s3":
            if not urlsplit(text).netloc:
                raise ConfigError(f"data: {text!r} names no bucket; write s3://bucket/prefix")
            return cls(text.rstrip("/"), s3 or S3Options())
        if scheme not in ("", "file"):
            raise ConfigError(f"data: {text!r} is neither a folder nor s3://bucket/prefix")
        path = Path(text.removeprefix("file://")).expanduser().absolute()
        if set(str(path)) & set("%?#"):  # the libraries that take it as part of an address read these differently
            raise ConfigError(f"data: the path {str(path)!r} may not contain '%', '?' or '#'")
        return cls(str(path))

    @property
    def is_local(self) -> bool:
        """Whether this is a folder of this host."""
        return not self.url.startswith("s3://")

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return urlsplit(self.url).netloc

    def uri(self, key: str) -> str:
        """The address of a key as DataFusion and Iceberg read it."""
        return f"file://{self.url}/{key}" if self.is_local else f"{self.url}/{key}"

    @property
    def warehouse(self) -> str:
        """Root of the Iceberg tables."""
        return self.uri(WAREHOUSE)

    def open_store(self) -> ObjectStore:
        """The object store rooted here."""
        if self.is_local:
            return LocalStore(Path(self.url))
        return s3_store(self.bucket, urlsplit(self.url).path.strip("/"), self.s3)

    def open_filesystem(self) -> FileSystem:
        """An Arrow file system that takes ``path_of(uri)``; its writes stream (multipart on S3)."""
        from pyarrow import fs

        if self.is_local:
            return fs.LocalFileSystem()
        options = self.s3
        return fs.S3FileSystem(
            endpoint_override=options.endpoint,
            region=options.region or os.environ.get("AWS_REGION", "us-east-1"),
            access_key=options.access_key_id,
            secret_key=options.secret_access_key,
            session_token=options.session_token,
            force_virtual_addressing=bool(options.endpoint) and not options.path_style,
        )

    def iceberg_properties(self) -> dict[str, str]:
        """The same settings as pyiceberg's FileIO names them."""
        named = {
            "s3.endpoint": self.s3.endpoint,
            "s3.region": self.s3.region,
            "s3.access-key-id": self.s3.access_key_id,
            "s3.secret-access-key": self.s3.secret_access_key,
            "s3.session-token": self.s3.session_token,
        }
        return {} if self.is_local else {name: value for name, value in named.items() if value}


def path_of(uri: str) -> str:
    """An object's address as ``open_filesystem`` takes it: no scheme."""
    return uri.removeprefix("file://").removeprefix("s3://")
