"""The query service: a tenant's SQL over what is compacted and what is not yet."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from icegate.catalog.open import CATALOG_ID_KEY, NAMESPACE, open_catalog
from icegate.errors import CatalogUnavailable, ObjectNotFound, SegmentMissing, StaleCut
from icegate_query.answers import Answer
from icegate_query.bounds import Bounds
from icegate_query.cut import take_cut
from icegate_query.engine import Engine
from icegate_query.manifests import SnapshotFiles
from icegate_query.plan import analyse, plan, union
from icegate_query.tail import TailCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from icegate.catalog.open import CatalogOptions
    from icegate.storage import Location
    from icegate_query.cut import ReadMode
    from icegate_query.engine import Execution
    from icegate_query.plan import Needs

#: Threads that read from the store: what they wait for is the network.
_READERS: Final = 16


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Limits of a query service.

    Args:
        timeout_seconds: a query that is not answered, and its answer not read, completely by then is cancelled. What
            runs of it stops at its next pause; a join that makes very many rows of few may be long in coming to one.
        max_rows: rows of an answer that is built in memory; more are cut off, and the answer says so.
        memory_bytes: memory of all executions together; beyond it they spill to disk, or fail.
        tail_cache_bytes: decoded segments kept between queries.
        max_tail_bytes: encoded bytes of log, after a table's position, beyond which read mode ``latest`` is refused.
        target_partitions: threads' worth of work in one query; None = one per core.
    """

    timeout_seconds: float = 60.0
    max_rows: int = 100_000
    memory_bytes: int = 1 << 30
    tail_cache_bytes: int = 512 << 20
    max_tail_bytes: int = 1 << 30
    target_partitions: int | None = None


class QueryService:
    """Answers SQL. Thread-safe; holds nothing that cannot be read again.

    Raises:
        ConfigError, CatalogMismatch: the catalog cannot be opened, or is another log's.
    """

    def __init__(
        self, location: Location, catalog: CatalogOptions | None = None, options: QueryOptions | None = None
    ) -> None:
        self._options = options or QueryOptions()
        self._location = location
        self._store = location.open_store()
        self._catalog = open_catalog(location, catalog)
        self._files = SnapshotFiles()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="query-reads")
        self._tail = TailCache(self._store, self._readers, self._options.tail_cache_bytes)
        self._engine = Engine(
            location,
            memory_bytes=self._options.memory_bytes,
            target_partitions=self._options.target_partitions,
        )

    def execute(self, tenant: str, sql: str, read_mode: ReadMode = "latest") -> Answer:
        """Run a query over one tenant's rows.

        Returns once the first rows are there; the rest is computed as the answer is read.

        Args:
            tenant: whose rows; a valid name.
            sql: one SELECT.
            read_mode: ``latest`` = all that was acknowledged before this call, ``committed`` = what is in Iceberg.

        Raises:
            QueryError, QueryRefused, RequestTooLarge: the query cannot be run as it is.
            QueryTimeout, Overloaded: it needs more time or memory than there is.
            WalError: the log cannot be read whole; the answer would be short of rows.
            StorageError, CatalogUnavailable: they do not answer.
        """
        started = time.monotonic()
        needs = analyse(self._engine, sql)
        try:
            return self._run(tenant, sql, needs, read_mode, started)
        except (StaleCut, SegmentMissing, ObjectNotFound):
            # Compaction and cleanup went on between metadata, listing and reading: once more, from fresh metadata.
            return self._run(tenant, sql, needs, read_mode, started)

    def check(self) -> None:
        """Return if catalog and object store answer.

        Raises:
            StorageError, CatalogUnavailable: one of them does not.
        """
        self._store.get(CATALOG_ID_KEY)
        try:
            self._catalog.load_namespace_properties(NAMESPACE)
        except Exception as error:
            raise CatalogUnavailable("the catalog does not answer") from error

    def close(self) -> None:
        """Cancel what is running and let go of everything."""
        self._engine.close()
        self._readers.shutdown(cancel_futures=True)
        self._catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, tenant: str, sql: str, needs: Needs, read_mode: ReadMode, started: float) -> Answer:
        options = self._options
        cut = take_cut(self._catalog, self._store, needs.tables, read_mode, max_tail_bytes=options.max_tail_bytes)
        frames, uris = {}, []
        # now() is a little later in the plan that runs than in the one the bounds are from; no more than the timeout.
        margin = int(options.timeout_seconds * 1_000_000)
        for each in cut:
            bounds = needs.bounds.get(each.table.name, Bounds()).padded(margin)
            files = [file.uri for file in self._files.of(each, tenant, bounds)]
            uris += files
            frames[each.table.name] = union(self._engine, each.table, files, self._tail.batches(each, tenant, bounds))
        execution = self._engine.start(plan(self._engine, sql, needs, frames), started + options.timeout_seconds)
        present = self._readers.map(self._check_present, uris)
        with _cancelled_on_error(execution):
            answer = Answer(execution, cut, max_rows=options.max_rows, started=started)
            list(present)
        return answer

    def _check_present(self, uri: str) -> None:
        """DataFusion takes a file that is not there for an empty folder, and would answer without its rows.

        Names are never used again, so a file that is there once the plan has found its files was there then.
        """
        if self._store.head(uri.removeprefix(self._location.uri(""))) is None:
            raise ObjectNotFound("a file of the table was removed while it was read")


@contextmanager
def _cancelled_on_error(execution: Execution) -> Iterator[None]:
    """Cancel an execution whose answer nobody will get."""
    try:
        yield
    except BaseException:
        execution.close()
        raise
