"""The OTLP servers, admission and group commit."""

import os

# Read when grpc is imported. Nothing here forks and goes on in Python; gRPC's handlers for that only make noise when
# another part of the process starts a program, as Spark does.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
