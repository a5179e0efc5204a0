"""What decoding costs: CPU microseconds a record, and as a multiple of protobuf's own parse in the same run.

Run as ``python benchmarks/decode.py``. Quote the ratios: microseconds are those of a machine at a moment.
"""

from __future__ import annotations

import random
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from samples import SIGNALS

from icegate.otlp import Request, columnar, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

MESSAGES: Final[dict[str, type[Message]]] = {
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
ROUNDS: Final = 7
PLAIN_ROUNDS: Final = 2


def parse(message: type[Message], requests: list[Request]) -> None:
    """Parse and drop each request."""
    for request in requests:
        message.FromString(request.payload)


def cost(work: Callable[[], object], records: int, rounds: int = ROUNDS) -> float:
    """The least CPU time of a few runs, in microseconds a record."""
    best = float("inf")
    for _ in range(rounds):
        start = process_time()
        work()
        best = min(best, process_time() - start)
    return best / records * 1e6


def main() -> None:
    """Print a line for each signal and request size."""
    print(f"{'':8} {'requests':>14} {'bytes':>6} {'parse':>7} {'columnar':>9} {'plain':>7}   multiples of parse")
    for topic, build in SIGNALS.items():
        for size, count in ((1000, 32), (10, 100)):
            rng = random.Random(7)
            requests = [Request(f"tenant-{i % 4}", build(rng, size), 1_790_000_000_000_000) for i in range(count)]
            records = size * count
            parsed = cost(partial(parse, MESSAGES[topic], requests), records)
            fast = cost(partial(columnar.decode, topic, requests), records)
            slow = cost(partial(plain.decode, topic, requests), records, PLAIN_ROUNDS)
            length = sum(len(request.payload) for request in requests) // records
            print(
                f"{topic:8} {count:5} x {size:6} {length:6} {parsed:7.2f} {fast:9.2f} {slow:7.2f}"
                f"   {fast / parsed:.1f} / {slow / parsed:.1f}; columnar is {slow / fast:.1f} times faster"
            )


if __name__ == "__main__":
    main()
