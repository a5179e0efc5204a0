"""The Spark session: started when there is work, quiet, and always stopped."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from icegate.errors import EngineUnavailable, StageFailed
from icegate_compactor.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: A task that fails is tried so many times in local mode too; a cluster has its own setting.
_LOCAL_TRIES: Final = 3
_MOST_LOCAL_CORES: Final = 8
_MASTER_TIMEOUT: Final = 5.0
_POLL_SECONDS: Final = 0.2
_QUIET: Final = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How to run Spark.

    ``master``: as Spark names it; None is what ``spark-submit`` was given, or else this machine (at most 8 cores).
    ``java_home``: None looks for one (see ``find_java``). ``driver_memory``: of the JVM; rows never enter it.
    ``conf``: Spark settings that go over ours.
    """

    master: str | None = None
    java_home: str | None = None
    driver_memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)


class Engine:
    """One Spark session, started by its first job. Not thread-safe."""

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._session: Any = None

    def run(
        self,
        rows: Sequence[tuple[Any, ...]],
        schema: str,
        task: Callable[[Iterator[Any]], Iterator[Any]],
        result: str,
        progress: Callable[[int, int], None],
    ) -> list[Any]:
        """Run ``task`` over rows, one Spark task each, and collect what it yields.

        Args:
            rows: the input, one tuple a task.
            schema: the rows' columns, as Spark SQL writes them.
            task: takes and gives Arrow record batches, as in ``mapInArrow``.
            result: the columns of what it gives.
            progress: called with (tasks done, tasks) now and then, from another thread.

        Raises:
            EngineUnavailable: Spark does not start, or its JVM went away.
            StageFailed: a task failed as often as Spark tries it.
        """
        session = self._start()
        context = session.sparkContext
        group = f"icegate-{uuid.uuid4()}"
        try:
            context.setJobGroup(group, f"IceGate: stage {len(rows)} units", True)
            frame = session.createDataFrame(context.parallelize(rows, len(rows)), schema, verifySchema=False)
            with _polled(context.statusTracker(), group, progress):
                collected: list[Any] = frame.mapInArrow(task, result).collect()
        except Exception as error:
            if _is_gone(error):
                self.close()
                _forget_jvm()
                raise EngineUnavailable(f"Spark's JVM went away: {error!r}") from error
            if type(error).__module__.startswith(("py4j", "pyspark")):
                raise StageFailed(f"staging failed on Spark: {_reason(error)}") from error
            raise
        except BaseException:
            context.cancelJobGroup(group)
            raise
        progress(len(rows), len(rows))
        return collected

    def check(self) -> None:
        """See whether Spark could start, without starting it.

        Raises:
            EngineUnavailable: pyspark, Java or the master is missing or does not fit.
        """
        _find_footing(self._options)

    def close(self) -> None:
        """Stop the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # its JVM may be gone already
                session.stop()

    def _start(self) -> Any:
        if self._session is None:
            self._session = _start(self._options)
        return self._session


@dataclass(frozen=True, slots=True)
class _Footing:
    """What Spark will start on: its master (None: as submitted) and the environment of its JVM."""

    master: str | None
    environment: Mapping[str, str | None]


def _find_footing(options: SparkOptions) -> _Footing:
    try:
        import pyspark
    except ImportError as error:
        raise EngineUnavailable(
            f"pyspark does not load on Python {sys.version.split()[0]} ({error}): pip install 'icegate[compactor]'"
        ) from error
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = options.master or (None if submitted else _this_machine())
    if master is not None:
        _reach(master)
    environment = {"JAVA_HOME": None if submitted else find_java(options.java_home, pyspark.__version__)}
    if _is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return _Footing(master, environment)


def _start(options: SparkOptions) -> Any:
    footing = _find_footing(options)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("icegate-compactor")
    for name, value in _settings(footing.master, options).items():
        builder = builder.config(name, value)
    if footing.master is not None:
        builder = builder.master(footing.master)
    with _environment(footing.environment), _own_interrupts():
        try:
            return builder.getOrCreate()
        except Exception as error:
            where = footing.master or "its master"
            raise EngineUnavailable(f"Spark does not start on {where}: {_reason(error)}") from error


def _settings(master: str | None, options: SparkOptions) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        # A fresh Python worker costs seconds of imports.
        "spark.python.worker.reuse": "true",
        # A worker that crashes in native code says where.
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }
    if _is_local(master):
        settings |= {
            "spark.driver.memory": options.driver_memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
            # Tasks import what the driver imports, wherever it has it from.
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
    return settings | dict(options.conf)


def _is_local(master: str | None) -> bool:
    return master is not None and master.startswith("local")


def _this_machine() -> str:
    return f"local[{min(len(os.sched_getaffinity(0)), _MOST_LOCAL_CORES)},{_LOCAL_TRIES}]"


def _reach(master: str) -> None:
    """Spark itself would try an unreachable stand-alone master for a minute and then fail obscurely."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_MASTER_TIMEOUT):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise EngineUnavailable(f"no Spark master answers at {master} ({'; '.join(reasons)})")


@contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables (those that have a value) for as long as the JVM takes to start."""
    before = {name: os.environ.get(name) for name, value in values.items() if value is not None}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Spark installs a handler for Ctrl-C in the main thread; signals belong to the caller."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _polled(tracker: Any, group: str, progress: Callable[[int, int], None]) -> Iterator[None]:
    finished = threading.Event()

    def poll() -> None:
        while not finished.wait(_POLL_SECONDS):
            jobs = [job for i in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(i)) is not None]
            stages = [s for job in jobs for i in job.stageIds if (s := tracker.getStageInfo(i)) is not None]
            if stages:
                progress(sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))

    thread = threading.Thread(target=poll, name="icegate-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _is_gone(error: BaseException) -> bool:
    """Whether this is the JVM's end and not an answer of its."""
    return isinstance(error, ConnectionError | EOFError) or type(error).__name__ == "Py4JNetworkError"


def _forget_jvm() -> None:
    """Pyspark would go on talking to the JVM it has started first; without it, the next session starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # There is no other way than their privates: their own ``stop`` asks the JVM first, and stops there.
    context: Any = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        context._jsc = None  # noqa: SLF001
        context.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    with suppress(Exception):
        gateway.close()
    if (process := getattr(gateway, "proc", None)) is not None:
        process.stdin.close()  # a JVM that lives after all ends with it


def _reason(error: BaseException) -> str:
    """The line that says why, out of a Java stack trace around a Python traceback."""
    said = str(error).split("\n\tat ", 1)[0].strip()
    return said.splitlines()[-1].strip() if said else repr(error)
