"""The object store: one narrow port, a durable local folder and S3 behind it."""

from icegate.storage.location import Location, S3Options, path_of
from icegate.storage.port import ObjectInfo, ObjectStore, PutOutcome

__all__ = ["Location", "ObjectInfo", "ObjectStore", "PutOutcome", "S3Options", "path_of"]
