"""IceGate: an OpenTelemetry gateway and lake."""

__version__ = "0.1.0"
