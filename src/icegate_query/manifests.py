"""The data files of a snapshot, decoded once.

Manifests never change: what one snapshot has decoded, the next one reuses and adds its own to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import TimestamptzType

from icegate.errors import ObjectNotFound, StorageError, TableUnreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table as IcebergTable

    from icegate_query.bounds import Bounds
    from icegate_query.cut import TableCut

_SNAPSHOTS_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of one tenant. Timestamps are microseconds, None if the manifest does not say."""

    uri: str
    low: int | None
    high: int | None

    def matters_to(self, bounds: Bounds) -> bool:
        """Whether it may hold rows within the bounds."""
        return self.low is None or self.high is None or bounds.overlaps(self.low, self.high)


#: One manifest, decoded: the files of each tenant.
_ByTenant = dict[str, list[DataFile]]


class SnapshotFiles:
    """Which files a snapshot holds for a tenant. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[int, Mapping[str, _ByTenant]] = OrderedDict()

    def of(self, cut: TableCut, tenant: str, bounds: Bounds) -> list[DataFile]:
        """The tenant's files that may hold rows within the bounds.

        Raises:
            ObjectNotFound: the snapshot has expired since its metadata was read.
            StorageError: its manifests cannot be read.
            TableUnreadable: delete files, or a partitioning without ``identity(tenant_id)``.
        """
        if cut.base.snapshot_id is None:
            return []
        manifests = self._manifests(cut.iceberg, cut.base.snapshot_id)
        return [file for each in manifests.values() for file in each.get(tenant, ()) if file.matters_to(bounds)]

    def _manifests(self, table: IcebergTable, snapshot_id: int) -> Mapping[str, _ByTenant]:
        with self._lock:
            if snapshot_id in self._snapshots:
                self._snapshots.move_to_end(snapshot_id)
                return self._snapshots[snapshot_id]
            known = {path: decoded for each in self._snapshots.values() for path, decoded in each.items()}
        try:
            decoded = _decode_snapshot(table, snapshot_id, known)
        except FileNotFoundError as error:
            raise ObjectNotFound(f"snapshot {snapshot_id} has expired") from error
        except OSError as error:
            raise StorageError(f"cannot read the manifests of snapshot {snapshot_id}") from error
        with self._lock:
            self._snapshots[snapshot_id] = decoded
            if len(self._snapshots) > _SNAPSHOTS_KEPT:
                self._snapshots.popitem(last=False)
        return decoded


def _decode_snapshot(table: IcebergTable, snapshot_id: int, known: Mapping[str, _ByTenant]) -> dict[str, _ByTenant]:
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise TableUnreadable(f"the current snapshot {snapshot_id} is not in its own metadata")
    return {
        manifest.manifest_path: known.get(manifest.manifest_path) or _decode_manifest(table, manifest)
        for manifest in snapshot.manifests(table.io)
    }


def _decode_manifest(table: IcebergTable, manifest: ManifestFile) -> _ByTenant:
    if manifest.content != ManifestContent.DATA:
        raise TableUnreadable(
            f"snapshot {table.metadata.current_snapshot_id} has delete files, which are not read here"
        )
    schema = table.schema()
    tenant_at = _tenant_field(table, manifest.partition_spec_id)
    time_id = schema.find_field("timestamp").field_id
    files: _ByTenant = {}
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        file = entry.data_file
        decoded = DataFile(file.file_path, _bound(file, "lower_bounds", time_id), _bound(file, "upper_bounds", time_id))
        files.setdefault(file.partition[tenant_at], []).append(decoded)
    return files


def _tenant_field(table: IcebergTable, spec_id: int) -> int:
    """Where the tenant is in a partition: only files of a single tenant can be told apart by it."""
    tenant_id = table.schema().find_field("tenant_id").field_id
    for index, field in enumerate(table.specs()[spec_id].fields):
        if field.source_id == tenant_id and isinstance(field.transform, IdentityTransform):
            return index
    raise TableUnreadable(f"partition spec {spec_id} does not keep tenants apart")


def _bound(file: IcebergFile, which: str, field_id: int) -> int | None:
    raw = (getattr(file, which) or {}).get(field_id)
    return None if raw is None else int(from_bytes(TimestamptzType(), raw))
