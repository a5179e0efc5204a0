"""The OTLP servers, admission and group commit."""
