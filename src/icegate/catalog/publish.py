"""Publish: rows and position move in one catalog commit, or not at all (docs/adr/0003).

The position is guarded by the assertion on ``main`` alone, so every change of position commits a snapshot, if an
empty one. The catalog's own commit retry is off: it would put the same rows on top of a winner's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)

from icegate.catalog.open import identifier
from icegate.catalog.position import POSITION_PROPERTY, base_of
from icegate.errors import AlreadyCompacted, CatalogUnavailable, CommitUnknown, PlanOutdated, PublishError, WalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table as IcebergTable

    from icegate.catalog.position import Base
    from icegate.tables import Table
    from icegate.wal import Position

#: Each further try means that a maintenance commit came in between; so many in a row do not happen by chance.
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Published:
    """A commit of ours that is in the table."""

    snapshot_id: int
    position: Position


def publish(catalog: Catalog, table: Table, base: Base, files: Sequence[DataFile], end: Position) -> Published:
    """Append data files and move the position from ``base.position`` to ``end``, in one commit.

    Args:
        catalog: where the table is.
        table: which table.
        base: the state the plan was made on.
        files: what was staged; may be empty, the position moves all the same.
        end: the position after these files.

    Raises:
        AlreadyCompacted: the position has moved since ``base``; these files must not land.
        PlanOutdated: schema, partitioning or rows changed since ``base``: stage again.
        PublishError: beaten by other commits again and again.
        CatalogUnavailable: the table cannot be read; nothing was committed.
        CommitUnknown: the outcome is unknown, and the table cannot be read to find out.
        WalError: ``end`` is behind ``base``, or the position would stay where it is while rows are added.
    """
    if not end.covers(base.position) or (files and end == base.position):
        raise WalError(f"table {table.name} cannot be published from position {base.position} to {end}")
    unclear: dict[int, Exception] = {}  # our commits without an answer: any of them may land, but only one can
    last: Exception | None = None
    for _ in range(_TRIES):
        current = _load(catalog, table, unclear)
        if (landed := _landed(current, unclear)) is not None:
            return Published(landed, end)
        _check(table, current, base)
        snapshot_id, requirements, updates = _prepare(current, base, files, end)
        try:
            catalog.commit_table(current, requirements, updates)
        except CommitFailedException as error:
            last = error
        except Exception as error:  # noqa: BLE001 - whatever it is, the commit may have landed
            last = unclear[snapshot_id] = error
        else:
            return Published(snapshot_id, end)
    if unclear and (landed := _landed(_load(catalog, table, unclear), unclear)) is not None:
        return Published(landed, end)
    raise PublishError(f"table {table.name}: {_TRIES} commits in a row failed, the last one so: {last}") from last


def _check(table: Table, current: IcebergTable, base: Base) -> None:
    now = base_of(current)
    if now.position != base.position:
        raise AlreadyCompacted(f"table {table.name} moved from position {base.position} to {now.position}")
    if (now.uuid, now.schema_id, now.spec_id) != (base.uuid, base.schema_id, base.spec_id):
        raise PlanOutdated(f"table {table.name} was redefined since the plan was made")
    snapshot = current.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id != base.snapshot_id:
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
            raise PlanOutdated(
                f"table {table.name}: snapshot {snapshot.snapshot_id} changed rows since the plan was made"
            )
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else current.snapshot_by_id(parent)
        if snapshot is None and base.snapshot_id is not None:
            raise PlanOutdated(f"table {table.name}: its history no longer reaches snapshot {base.snapshot_id}")
    if snapshot is None and base.snapshot_id is not None:
        raise PlanOutdated(f"table {table.name} lost snapshot {base.snapshot_id}")


def _prepare(
    current: IcebergTable, base: Base, files: Sequence[DataFile], end: Position
) -> tuple[int, tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Write the new snapshot's manifests; what is returned is all that the catalog has to decide on."""
    transaction = current.transaction()
    append = transaction.update_snapshot(snapshot_properties={POSITION_PROPERTY: end.to_json()}).fast_append()
    for file in files:
        append.append_data_file(file)
    append.commit()
    transaction.set_properties({POSITION_PROPERTY: end.to_json()})
    # Transaction.commit_transaction would assert main only, not schema and spec.
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=base.uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=current.metadata.current_snapshot_id),
        AssertCurrentSchemaId(current_schema_id=base.schema_id),
        AssertDefaultSpecId(default_spec_id=base.spec_id),
    )
    return append.snapshot_id, requirements, transaction._updates  # noqa: SLF001 - the only way to get at them


def _load(catalog: Catalog, table: Table, unclear: Mapping[int, Exception]) -> IcebergTable:
    try:
        return catalog.load_table(identifier(table))
    except Exception as error:
        if not unclear:
            raise CatalogUnavailable(f"cannot read table {table.name} from the catalog: {error}") from error
        raise CommitUnknown(
            f"table {table.name}: no answer to the commit of snapshot {[*unclear]} ({[*unclear.values()]}), and reading"
            f" the table failed ({error}); run again"
        ) from error


def _landed(current: IcebergTable, unclear: Iterable[int]) -> int | None:
    return next((each for each in unclear if current.snapshot_by_id(each) is not None), None)
