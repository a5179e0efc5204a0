"""Every error IceGate raises on purpose.

::

    IceGateError
     ├── ConfigError                 a setting is wrong: the message names its key
     ├── CatalogMismatch             this log belongs to another catalog
     ├── RequestError                the client's fault: the same request will fail again
     │    ├── MalformedRequest       bytes that are not the message they claim to be
     │    ├── RequestTooLarge        over the size cap, before or after decompression
     │    ├── InvalidTenant          a tenant name that is missing or not allowed
     │    └── QueryError             SQL that cannot be planned or run as asked
     │         └── QueryRefused      SQL that is understood and not allowed
     ├── Overloaded                  not now: try again after a delay
     ├── ShuttingDown                not here: try again, elsewhere or later
     ├── AppendUnknown               the append may or may not have landed (ambiguous, not refused)
     ├── StorageError                the object store failed
     │    ├── ObjectNotFound         no object at that key
     │    └── StoreAmbiguous         no answer: a write may or may not have landed
     ├── WalError                    the log is not as its rules say
     │    ├── SegmentMissing         a hole in a run of offsets
     │    ├── StaleCut               the log was cleaned past the position this reader holds
     │    ├── SegmentCorrupt         bytes that are not a segment
     │    └── FormatTooNew           a segment written in a format this version does not know
     ├── PublishError                a commit to the catalog did not happen
     │    ├── AlreadyCompacted       another compactor committed this range first
     │    └── PlanOutdated           schema, partitioning or rows changed under the plan: stage again
     ├── CommitUnknown               the catalog did not answer, and re-reading it failed too
     ├── StageFailed                 tasks failed on Spark as often as it tries them: nothing was published
     ├── CatalogUnavailable          the catalog does not answer a read
     ├── TableUnreadable             a table holds what this version does not read
     ├── QueryTimeout                the query was cancelled at its deadline
     └── EngineUnavailable           Spark or Java cannot start here

``retryable`` says whether the same request, sent again unchanged, may succeed. The gateway and the query
service turn that and ``grpc_status`` / ``http_status`` into answers; no other table of codes exists.
"""

from __future__ import annotations

from typing import ClassVar


class IceGateError(Exception):
    """Root of the tree."""

    retryable: ClassVar[bool] = False
    grpc_status: ClassVar[str] = "INTERNAL"
    http_status: ClassVar[int] = 500


class ConfigError(IceGateError):
    """A setting is missing or wrong; the message names its key."""


class CatalogMismatch(IceGateError):
    """The log names another catalog as its own (``catalog-id``)."""


class RequestError(IceGateError):
    """The request cannot succeed as it is."""

    grpc_status = "INVALID_ARGUMENT"
    http_status = 400


class MalformedRequest(RequestError):
    """The payload does not decode."""


class RequestTooLarge(RequestError):
    """The payload exceeds the cap; sent without RetryInfo, so clients do not resend it."""

    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 413


class InvalidTenant(RequestError):
    """The tenant is missing or its name is not allowed."""


class QueryError(RequestError):
    """The SQL text cannot be planned, or failed on the data."""


class QueryRefused(QueryError):
    """The SQL text asks for what the service does not do (writes, files, several statements)."""

    http_status = 403


class Overloaded(IceGateError):
    """Too much is in flight."""

    retryable = True
    grpc_status = "UNAVAILABLE"
    http_status = 503


class ShuttingDown(IceGateError):
    """This process stops admitting."""

    retryable = True
    grpc_status = "UNAVAILABLE"
    http_status = 503


class AppendUnknown(IceGateError):
    """The deadline passed while an append's outcome was unknown: it may be durable, it may not."""

    retryable = True
    grpc_status = "UNAVAILABLE"
    http_status = 503


class StorageError(IceGateError):
    """The object store refused or failed."""

    retryable = True
    grpc_status = "UNAVAILABLE"
    http_status = 503


class ObjectNotFound(StorageError):
    """There is no object at that key."""


class StoreAmbiguous(StorageError):
    """The store gave no usable answer (409, 5xx, timeout, reset): a write may or may not have landed."""


class WalError(IceGateError):
    """The log contradicts its own rules, or moved under a reader."""

    retryable = True
    grpc_status = "UNAVAILABLE"
    http_status = 503


class SegmentMissing(WalError):
    """An offset is missing between two that exist."""


class StaleCut(WalError):
    """A boundary marker lies above the reader's position: someone moved on and cleaned."""


class SegmentCorrupt(WalError):
    """An object under a segment's key is not a segment of ours."""

    retryable = False
    grpc_status = "INTERNAL"
    http_status = 500


class FormatTooNew(WalError):
    """A segment's format is newer than this version reads: upgrade the readers first."""

    retryable = False
    grpc_status = "INTERNAL"
    http_status = 500


class PublishError(IceGateError):
    """The commit was refused; nothing of it landed."""


class AlreadyCompacted(PublishError):
    """The table's position is past the plan's start: another compactor did this work."""


class PlanOutdated(PublishError):
    """Staged files no longer fit the table; stage the range again."""


class CommitUnknown(IceGateError):
    """The commit may have landed and the table cannot be re-read to find out."""

    retryable = True


class StageFailed(IceGateError):
    """Spark gave a task up; its files are not referenced and nothing was published."""

    retryable = True


class CatalogUnavailable(IceGateError):
    """The catalog does not answer; nothing was changed."""

    retryable = True
    grpc_status = "UNAVAILABLE"
    http_status = 503


class TableUnreadable(IceGateError):
    """A table has delete files or a partitioning that this version does not read."""


class QueryTimeout(IceGateError):
    """The query did not finish in time and was cancelled; unchanged, it would again."""

    grpc_status = "DEADLINE_EXCEEDED"
    http_status = 504


class EngineUnavailable(IceGateError):
    """Spark or Java cannot run here; the message says what to install or set."""
