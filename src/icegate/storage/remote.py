"""S3 (and an in-memory store for tests) through obstore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import MemoryStore, S3Store

from icegate.errors import ObjectNotFound, StorageError, StoreAmbiguous
from icegate.storage.port import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from obstore.store import ClientConfig

    from icegate.storage.location import S3Options
    from icegate.storage.port import PutOutcome

# The client has one exception for 412 and 409.
_CONFLICT: Final = "status code: 409"


class RemoteStore:
    """Objects in a bucket, under an optional prefix.

    ``writes`` is a second client of the same bucket that never resends by itself: a create that was resent
    after a lost answer reports our own object as somebody else's.
    """

    def __init__(self, reads: S3Store | MemoryStore, writes: S3Store | MemoryStore) -> None:
        self._reads = reads
        self._writes = writes

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """One conditional PUT (If-None-Match), never multipart, never resent."""
        try:
            obstore.put(self._writes, key, data, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            # 409 is a conflict between writers that are under way: nothing may exist, perhaps nothing ever will.
            if _CONFLICT in _first_line(error):
                raise StoreAmbiguous(f"conflicting creates of {key}: {_first_line(error)}") from error
            return "exists"
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise StorageError(f"the store refused to create {key}: {_first_line(error)}") from error
        except (BaseError, OSError) as error:
            raise StoreAmbiguous(f"no clear answer to creating {key}: {_first_line(error)}") from error
        return "created"

    def get(self, key: str, *, last: int | None = None) -> bytes:
        """The object, or its end by a suffix range."""
        try:
            if last is None:
                return obstore.get(self._reads, key).bytes().to_bytes()
            return obstore.get(self._reads, key, options={"range": {"suffix": last}}).bytes().to_bytes()
        except FileNotFoundError as error:
            raise ObjectNotFound(f"no object {key}") from error
        except (BaseError, OSError) as error:
            raise StorageError(f"cannot read {key}: {_first_line(error)}") from error

    def head(self, key: str) -> ObjectInfo | None:
        """Ask for the object's size and time."""
        try:
            return _info(obstore.head(self._reads, key))
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise StorageError(f"cannot look up {key}: {_first_line(error)}") from error

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """List page by page (1,000 keys a request on S3)."""
        try:
            for page in obstore.list(self._reads, prefix, offset=after or None, chunk_size=1000):
                yield from map(_info, page)
        except (BaseError, OSError) as error:
            raise StorageError(f"cannot list {prefix}: {_first_line(error)}") from error

    def delete(self, key: str) -> None:
        """Delete the object."""
        try:
            obstore.delete(self._writes, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise StorageError(f"cannot delete {key}: {_first_line(error)}") from error

    def settle(self, prefix: str) -> None:
        """Nothing to do: what an object store lists is durable."""


def memory_store() -> RemoteStore:
    """A store that lives in this process."""
    store = MemoryStore()
    return RemoteStore(store, store)


def s3_store(bucket: str, prefix: str, options: S3Options) -> RemoteStore:
    """A store on S3 or what speaks its protocol; needs If-None-Match on PUT."""
    config: dict[str, Any] = {
        name: value
        for name, value in (
            ("region", options.region),
            ("endpoint", options.endpoint),
            ("access_key_id", options.access_key_id),
            ("secret_access_key", options.secret_access_key),
            ("session_token", options.session_token),
        )
        if value
    }
    config["virtual_hosted_style_request"] = not options.path_style
    client: ClientConfig = {"timeout": "10s", "connect_timeout": "3s", "allow_http": options.plain_http}

    def client_that_retries(times: int) -> S3Store:
        return S3Store(
            bucket,
            prefix=prefix or None,
            client_options=client,
            retry_config={"max_retries": times},
            **config,
        )

    return RemoteStore(client_that_retries(5), client_that_retries(0))


def _info(meta: Mapping[str, Any]) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1_000_000))


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
