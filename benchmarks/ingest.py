"""The whole gateway with durable acknowledgement: records per CPU second, beside protobuf's parse of the same bytes."""

from __future__ import annotations

import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path

import grpc
import samples
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from icegate.gateway.server import Gateway, GatewayOptions
from icegate.storage.local import LocalStore

EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
LOADS = ((1, 1000, 200), (8, 1000, 100), (32, 1000, 25), (64, 10, 100))  # connections, records, requests of each


def _client(
    port: int, connections: int, records: int, requests: int, results: multiprocessing.Queue[list[float]]
) -> None:
    payload = samples.logs(random.Random(7), records)
    channels = [
        grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) for _ in range(connections)
    ]
    calls = [channel.unary_unary(EXPORT) for channel in channels]
    for call in calls:
        call(payload)
    results.put([])
    waiting = {call.future(payload): (call, requests, time.perf_counter()) for call in calls}
    latencies: list[float] = []
    while waiting:
        for future in [each for each in waiting if each.done()] or [next(iter(waiting))]:
            future.result()
            call, left, started = waiting.pop(future)
            latencies.append(time.perf_counter() - started)
            if left > 1:
                waiting[call.future(payload)] = (call, left - 1, time.perf_counter())
    results.put(latencies)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _parse_seconds(records: int) -> float:
    """CPU seconds a record of protobuf's parse: the best of three."""
    payload = samples.logs(random.Random(7), records)
    rounds = max(1, 50_000 // records)
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for _ in range(rounds):
            ExportLogsServiceRequest.FromString(payload)
        best = min(best, time.process_time() - started)
    return best / rounds / records


def main() -> None:
    """Print one line a load."""
    context = multiprocessing.get_context("spawn")
    print("connections  records/request  records per CPU s  x parse  records/s  ack p50 ms  p99 ms")
    for connections, records, requests in LOADS:
        with tempfile.TemporaryDirectory() as folder:
            gateway = Gateway(LocalStore(Path(folder)), GatewayOptions(grpc_port=0, http_port=0))
            results: multiprocessing.Queue[list[float]] = context.Queue()
            client = context.Process(target=_client, args=(gateway.grpc_port, connections, records, requests, results))
            client.start()
            results.get()
            cpu, wall = _cpu(), time.perf_counter()
            latencies = sorted(results.get())
            cpu, wall = _cpu() - cpu, time.perf_counter() - wall
            client.join()
            gateway.stop()
        total = connections * requests * records
        print(
            f"{connections:11} {records:16} {total / cpu:18,.0f} {cpu / total / _parse_seconds(records):8.1f}"
            f" {total / wall:10,.0f} {latencies[len(latencies) // 2] * 1e3:11.1f}"
            f" {latencies[int(len(latencies) * 0.99)] * 1e3:7.1f}"
        )


if __name__ == "__main__":
    main()
