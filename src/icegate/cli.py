"""The ``icegate`` command."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Literal, Optional

import typer

from icegate import client, config, terminal, wiring
from icegate.errors import ConfigError, IceGateError
from icegate.lifecycle import stop_on_signal

app = typer.Typer(
    name="icegate",
    help="OpenTelemetry gateway and lake: OTLP in, Iceberg through Spark, SQL out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
wal = typer.Typer(help="Look into the write-ahead log.", no_args_is_help=True)
app.add_typer(wal, name="wal")
config_commands = typer.Typer(help="Settings.", no_args_is_help=True)
app.add_typer(config_commands, name="config")

out = terminal.console()

# Typer reads these at run time: Optional, since `X | None` in Annotated aliases is not resolved by every version.
Data = Annotated[Optional[str], typer.Option("--data", help="a folder, or s3://bucket/prefix")]  # noqa: UP045
Host = Annotated[Optional[str], typer.Option("--host", help="address to listen on")]  # noqa: UP045
GrpcPort = Annotated[Optional[int], typer.Option("--grpc-port", help="OTLP/gRPC, default 4317; 0 = any free")]  # noqa: UP045
HttpPort = Annotated[Optional[int], typer.Option("--http-port", help="OTLP/HTTP, default 4318; 0 = any free")]  # noqa: UP045
SqlPort = Annotated[Optional[int], typer.Option("--sql-port", help="SQL over HTTP, default 4319; 0 = any free")]  # noqa: UP045
Every = Annotated[Optional[str], typer.Option("--every", help="compact in a loop, with this pause: 30s, 5m")]  # noqa: UP045
Tenant = Annotated[Optional[str], typer.Option("--tenant", help="whose rows")]  # noqa: UP045


@app.command()
def up(
    data: Data = None,
    host: Host = None,
    grpc_port: GrpcPort = None,
    http_port: HttpPort = None,
    sql_port: SqlPort = None,
    every: Every = None,
) -> None:
    """Run everything in one process: gateway, query service, compaction loop."""
    from icegate.up import Embedded
    from icegate_compactor import TerminalProgress

    settings = config.load(data=data, host=host, grpc_port=grpc_port, http_port=http_port, sql_port=sql_port)
    pause = _seconds(every, settings)
    stop = stop_on_signal()
    with Embedded(settings, observer=TerminalProgress(out)) as running:
        running.compact_every(pause)
        _listening("OTLP/gRPC", settings.host, running.grpc_port, scheme="")
        _listening("OTLP/HTTP", settings.host, running.http_port)
        _listening("SQL", settings.host, running.sql_port)
        # Not through rich: these lines are to be copied, and it would break them at the terminal's edge.
        sys.stdout.write(_examples(settings.host, running.grpc_port, running.http_port, running.sql_port))
        sys.stdout.flush()
        stop.wait()
        out.print("stopping: flushing what is in flight")


@app.command()
def gateway(data: Data = None, host: Host = None, grpc_port: GrpcPort = None, http_port: HttpPort = None) -> None:
    """Run an ingest node: OTLP in, WAL segments out."""
    from icegate.gateway.server import Gateway

    settings = config.load(data=data, host=host, grpc_port=grpc_port, http_port=http_port)
    stop = stop_on_signal()
    running = Gateway(wiring.location(settings).open_store(), wiring.gateway_options(settings))
    _listening("OTLP/gRPC", settings.host, running.grpc_port, scheme="")
    _listening("OTLP/HTTP", settings.host, running.http_port)
    stop.wait()
    running.stop()


@app.command()
def query(data: Data = None, host: Host = None, sql_port: SqlPort = None) -> None:
    """Run a query node: SQL over HTTP."""
    from icegate.serving import HttpServer
    from icegate_query import QueryService, create_app

    settings = config.load(data=data, host=host, sql_port=sql_port)
    wiring.require_data(settings)
    stop = stop_on_signal()
    service = QueryService(wiring.location(settings), wiring.catalog_options(settings), wiring.query_options(settings))
    server = HttpServer(
        create_app(service, wiring.default_tenant(settings)), settings.host, settings.sql_port, setting="sql_port"
    )
    _listening("SQL", settings.host, server.port)
    stop.wait()
    server.stop()
    service.close()


@app.command()
def compact(
    data: Data = None,
    once: Annotated[bool, typer.Option("--once", help="compact what is durable now, then exit")] = False,  # noqa: FBT002
    every: Every = None,
) -> None:
    """Roll the WAL into the Iceberg tables, on Spark; in a loop, unless told --once."""
    from icegate_compactor import Compactor, TerminalProgress

    if once and every is not None:
        raise ConfigError("--once and --every exclude each other")
    settings = config.load(data=data)
    pause = _seconds(every, settings)
    wiring.require_data(settings)
    progress = TerminalProgress()
    compactor = Compactor(
        wiring.location(settings),
        wiring.catalog_options(settings),
        wiring.spark_options(settings),
        wiring.compact_options(settings),
        progress,
    )
    with compactor, progress:
        if not once:
            out.print(f"compacting {settings.data} every {pause:g} s")
            compactor.run_every(pause, stop_on_signal())
            return
        reports = compactor.run_once()
    out.print(
        terminal.grid(
            ("table", "outcome", "segments", "rows", "files", "position", "snapshot"),
            [(r.table, r.outcome, r.segments, r.rows, r.files, r.position, r.snapshot_id) for r in reports],
        )
    )


@app.command()
def sql(
    text: Annotated[str, typer.Argument(metavar="SQL", help="one statement; - reads it from standard input")],
    url: Annotated[Optional[str], typer.Option("--url", help="query service; default: this host, sql_port")] = None,  # noqa: UP045
    tenant: Tenant = None,
    read_mode: Annotated[Literal["latest", "committed"], typer.Option("--read-mode")] = "latest",
) -> None:
    """Ask a running query service."""
    address = url or f"http://127.0.0.1:{config.load().sql_port}"
    answer = client.sql(address, sys.stdin.read() if text == "-" else text, tenant=tenant, read_mode=read_mode)
    out.print(terminal.result(answer, out.width))
    out.print(f"{answer.num_rows} row{'' if answer.num_rows == 1 else 's'}")


@app.command()
def demo() -> None:
    """Run the whole pipeline on real telemetry in a temporary folder, and check every count."""
    from icegate.demo import run

    raise typer.Exit(run(out))


@wal.command("status")
def wal_status(data: Data = None) -> None:
    """Show how far each table has come in its topic."""
    from icegate.catalog.open import open_catalog
    from icegate.status import table_lags

    settings = config.load(data=data)
    wiring.require_data(settings)
    location = wiring.location(settings)
    lags = table_lags(location.open_store(), open_catalog(location, wiring.catalog_options(settings)))
    out.print(
        terminal.grid(
            ("table", "topic", "shard", "position", "head", "segments behind", "bytes behind"),
            [(g.table, g.topic, g.shard, g.position, g.head, g.segments_behind, g.bytes_behind) for g in lags],
        )
    )


@config_commands.command("show")
def config_show(data: Data = None) -> None:
    """Show every setting, its value now and its environment variable."""
    settings = config.load(data=data)
    for key in config.known_keys():
        value: object = settings
        for part in key.split("."):
            value = getattr(value, part)
        shown = config.shown(key, value)
        sys.stdout.write(f"{key} = {'' if shown is None else shown}  # {config.variable(key)}\n")


def main() -> None:
    """Entry point: an error of ours is one line on standard error and exit code 1 (2 for a wrong setting)."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("icegate").setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it tells at length what its caller tells in a line
    try:
        app()
    except ConfigError as error:
        _fail(error, 2)
    except IceGateError as error:
        _fail(error, 1)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("icegate"):
            raise
        _fail(ConfigError(f"this command needs {error.name}, which is not installed: pip install 'icegate[all]'"), 2)
    except KeyboardInterrupt:
        sys.stderr.write("icegate: interrupted\n")
        raise SystemExit(130) from None


def _fail(error: IceGateError, code: int) -> None:
    sys.stderr.write(f"icegate: {error}\n")
    raise SystemExit(code)


def _seconds(every: str | None, settings: config.Settings) -> float:
    if every is None:
        return settings.compactor.every
    try:
        return float(str(config.parse_duration(every)))
    except ValueError as error:
        raise ConfigError(f"--every: {error}") from error


def _listening(what: str, host: str, port: int, *, scheme: str = "http://") -> None:
    out.print(f"{what:<10} {scheme}{host}:{port}", highlight=False)


def _examples(host: str, grpc_port: int, http_port: int, sql_port: int) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    program = sys.argv[0] if sys.argv[0].endswith("icegate") else f"{sys.executable} -m icegate"
    return f"""
Send something (an empty export is a valid one; a Collector's otlp exporter takes {shown}:{grpc_port}):
  curl -i -X POST -H 'Content-Type: application/x-protobuf' --data-binary '' http://{shown}:{http_port}/v1/logs
Ask:
  curl -s http://{shown}:{sql_port}/v1/sql -H 'Content-Type: text/plain' -d 'SELECT count(*) AS n FROM logs'
  {program} sql --url http://{shown}:{sql_port} "SELECT service_name, count(*) AS n FROM spans GROUP BY 1"
Stop with Ctrl-C.
"""


if __name__ == "__main__":
    main()
