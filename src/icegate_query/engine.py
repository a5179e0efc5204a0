"""The engine: one DataFusion session that executes, its memory, and how an execution ends."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

from icegate.errors import (
    IceGateError,
    ObjectNotFound,
    Overloaded,
    QueryError,
    QueryTimeout,
    ShuttingDown,
    StorageError,
)
from icegate.storage.engine import register
from icegate.storage.location import WAREHOUSE
from icegate_query.scan import ParquetScanner

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any, TypeVar

    from datafusion import DataFrame, RecordBatch, RecordBatchStream

    from icegate.storage import Location

    T = TypeVar("T")

_log = logging.getLogger(__name__)

_SETTINGS: Final = {
    "datafusion.execution.parquet.pushdown_filters": "true",
    "datafusion.execution.parquet.reorder_filters": "true",
}
_FILES_FAILED: Final = ("Object Store error", "Parquet error", "IO error", "ObjectStore(", "ParquetError(")


class Engine:
    """Executes plans. Thread-safe.

    Args:
        location: whose files it may read.
        memory_bytes: memory of all executions together; beyond it they spill to the system's temporary folder.
        target_partitions: threads' worth of work in one query; None = one per core.
    """

    def __init__(self, location: Location, *, memory_bytes: int, target_partitions: int | None) -> None:
        config = SessionConfig(dict(_SETTINGS)).with_information_schema(enabled=False)
        if target_partitions is not None:
            config = config.with_target_partitions(target_partitions)
        runtime = RuntimeEnvBuilder().with_fair_spill_pool(memory_bytes).with_disk_manager_os()
        self.context = SessionContext(config, runtime)
        register(self.context, location)
        self.scanner = ParquetScanner(self.context)
        self._names = (location.url.removeprefix("s3://").strip("/"), f"{WAREHOUSE}/")
        # Executions are awaited on a loop of their own: only an awaited execution can be cancelled.
        self._closing, self._closed = threading.Lock(), False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="query-engine", daemon=True)
        self._thread.start()

    def start(self, frame: DataFrame, deadline: float) -> Execution:
        """Begin an execution that must end before ``deadline`` (``time.monotonic``).

        Raises:
            IceGateError: the plan cannot be executed (see ``translated``).
        """
        with self.translated():
            return Execution(self, frame.execute_stream(), frame.schema(), deadline)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's loop, from any other thread."""
        with self._closing:  # what comes after ``close`` has begun would wait on a loop that has stopped
            if self._closed:
                work.close()
                raise ShuttingDown("the query service is closed")
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        return running.result()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what a failure of DataFusion's means, in words that name no file and no folder."""
        try:
            yield
        except (IceGateError, KeyboardInterrupt, SystemExit):
            raise
        except CancelledError as error:
            raise ShuttingDown("the query service is closing") from error
        except Exception as error:
            raise self._meaning(str(error)) from error
        except BaseException as error:  # a panic in Rust
            raise QueryError("the engine failed on this query") from error

    def _meaning(self, message: str) -> IceGateError:
        text = message.split("\n\nbacktrace", 1)[0].removeprefix("DataFusion error: ").strip()
        _log.info("a query failed: %s", text)
        if "Resources exhausted" in text:
            return Overloaded("the query needs more memory than is left: narrow it down, or try again later")
        if any(each in text for each in _FILES_FAILED):
            if "not found" in text:
                return ObjectNotFound("a file of the table was removed while it was read")
            return StorageError("a file of the table cannot be read; try again")
        if any(each in text for each in self._names):
            return QueryError("the query failed on the data")
        return QueryError(text)

    def close(self) -> None:
        """Cancel what is running and stop."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Execution:
    """The batches of one running query, in order. Closing it early cancels the query."""

    def __init__(self, engine: Engine, stream: RecordBatchStream, schema: pa.Schema, deadline: float) -> None:
        self.schema = pa.schema([pa.field(each.name, _plain(each.type), each.nullable) for each in schema])
        self._engine = engine
        self._stream: RecordBatchStream | None = stream
        self._deadline = deadline
        self._late = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        """The next batch.

        Raises:
            QueryTimeout: the deadline passed.
            IceGateError: the execution failed (see ``Engine.translated``).
        """
        if self._stream is None:
            raise StopIteration
        with self._engine.translated():
            batch = self._engine.wait_for(self._next(self._stream))
        if batch is None:
            self.close()
            if self._late:
                raise QueryTimeout("the query did not finish in time and was cancelled: narrow it down")
            raise StopIteration
        columns = [column.cast(each.type) for column, each in zip(batch.to_pyarrow().columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def close(self) -> None:
        """Let go of the execution; what is still running of it stops at its next pause."""
        self._stream = None

    async def _next(self, stream: RecordBatchStream) -> RecordBatch | None:
        # A timeout must not leave here as an exception: its traceback would keep the stream, and so the query, alive.
        try:
            async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
                return await stream.__anext__()
        except StopAsyncIteration:
            return None
        except TimeoutError:
            self._late = True
            return None


def _plain(kind: pa.DataType) -> pa.DataType:
    """Strings for string views: a view into a large buffer keeps, and would send, all of it."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type), each.nullable) for each in kind])
    return kind
