"""Publish: rows and position in one commit, once, whatever else commits and whatever the catalog answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from catalog.staged import stage, stored
from icegate.catalog.open import identifier, open_catalog
from icegate.catalog.position import POSITION_PROPERTY, Base, base_of
from icegate.catalog.publish import publish
from icegate.errors import AlreadyCompacted, CommitUnknown, IceGateError, PlanOutdated, PublishError, WalError
from icegate.tables import EVENTS, LOGS
from icegate.wal import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable

    from icegate.storage import Location


def load(catalog: Catalog) -> IcebergTable:
    return catalog.load_table(identifier(LOGS))


def base(catalog: Catalog) -> Base:
    return base_of(load(catalog))


def at(offset: int) -> Position:
    return Position({0: offset})


def snapshots(catalog: Catalog) -> int:
    return len(load(catalog).metadata.snapshots)


class Answers:
    """Stands in front of the catalog's commit; each script entry decides on one call, then it works again."""

    def __init__(self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script: list[Callable[[Callable[[], Any]], Any]] = []
        self.calls = 0
        real = catalog.commit_table

        def commit(*args: Any) -> Any:
            self.calls += 1
            return self.script.pop(0)(lambda: real(*args)) if self.script else real(*args)

        monkeypatch.setattr(catalog, "commit_table", commit)


@pytest.fixture
def answers(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(catalog, monkeypatch)


def lost_after(commit: Callable[[], Any]) -> Any:
    commit()
    raise ConnectionError("answer lost")


def lost_before(_: Callable[[], Any]) -> Any:
    raise ConnectionError("request lost")


def beaten(_: Callable[[], Any]) -> Any:
    raise CommitFailedException("beaten")


def test_rows_and_position_move_in_one_commit(catalog: Catalog, answers: Answers) -> None:
    files = stage(catalog, LOGS, 4, "a", "b")
    assert stored(catalog, LOGS) == []
    published = publish(catalog, LOGS, base(catalog), files, at(4))
    assert answers.calls == 1
    assert stored(catalog, LOGS) == [("a", 4), ("b", 4)]
    now = base(catalog)
    assert now.position == at(4) == published.position
    assert now.snapshot_id == published.snapshot_id
    assert snapshots(catalog) == 1
    snapshot = load(catalog).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.APPEND
    assert snapshot.summary[POSITION_PROPERTY] == at(4).to_json()


def test_publishes_follow_each_other(catalog: Catalog) -> None:
    for offset in range(3):
        publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, offset, "a"), at(offset))
    assert stored(catalog, LOGS) == [("a", 0), ("a", 1), ("a", 2)]
    summaries = [s.summary[POSITION_PROPERTY] for s in load(catalog).metadata.snapshots if s.summary]
    assert summaries == [at(n).to_json() for n in range(3)]


def test_a_range_without_rows_makes_an_empty_snapshot(catalog: Catalog) -> None:
    publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 0, "a"), at(0))
    before = base(catalog)
    publish(catalog, LOGS, before, [], at(7))
    assert base(catalog).position == at(7)
    assert base(catalog).snapshot_id != before.snapshot_id
    assert stored(catalog, LOGS) == [("a", 0)]


def test_tables_of_one_topic_move_on_their_own(catalog: Catalog) -> None:
    publish(catalog, LOGS, base(catalog), [], at(7))
    assert base_of(catalog.load_table(identifier(EVENTS))).position == Position()


@pytest.mark.parametrize("files", [True, False])
def test_the_second_of_two_compactors_is_told_and_its_rows_do_not_land(catalog: Catalog, files: bool) -> None:
    planned = base(catalog)
    mine, theirs = stage(catalog, LOGS, 1, "a"), stage(catalog, LOGS, 1, "a")
    publish(catalog, LOGS, planned, theirs if files else [], at(1))
    with pytest.raises(AlreadyCompacted, match="logs"):
        publish(catalog, LOGS, planned, mine, at(1))
    assert len(stored(catalog, LOGS)) == int(files)


def test_of_racing_publishes_one_wins(location: Location, catalog: Catalog) -> None:
    racers, rounds = 3, 3
    for offset in range(rounds):
        planned = base(catalog)
        barrier = Barrier(racers)

        def race(offset: int = offset, planned: Base = planned, barrier: Barrier = barrier) -> bool:
            mine = open_catalog(location)
            files = stage(mine, LOGS, offset, "a", "b")
            barrier.wait(30)
            try:
                publish(mine, LOGS, planned, files, at(offset))
            except AlreadyCompacted:
                return False
            finally:
                mine.close()
            return True

        with ThreadPoolExecutor(racers) as pool:
            won = [future.result() for future in [pool.submit(race) for _ in range(racers)]]
        assert won.count(True) == 1
    assert stored(catalog, LOGS) == [(tenant, n) for tenant in "ab" for n in range(rounds)]
    assert snapshots(catalog) == rounds


@pytest.mark.parametrize("end", [Position(), Position({0: 2}), Position({1: 9})])
def test_a_position_never_moves_back(catalog: Catalog, end: Position) -> None:
    publish(catalog, LOGS, base(catalog), [], at(3))
    with pytest.raises(WalError, match="logs"):
        publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), end)
    assert base(catalog).position == at(3)


def test_rows_do_not_land_without_moving_the_position(catalog: Catalog) -> None:
    """Else a second compactor with the same plan would not notice the first."""
    publish(catalog, LOGS, base(catalog), [], at(3))
    with pytest.raises(WalError, match="logs"):
        publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), at(3))
    assert stored(catalog, LOGS) == []


def evolve(catalog: Catalog) -> None:
    with load(catalog).update_schema() as update:
        update.add_column("extra", StringType())


def repartition(catalog: Catalog) -> None:
    with load(catalog).update_spec() as update:
        update.add_field("service_name", IdentityTransform(), "service")


def delete(catalog: Catalog) -> None:
    load(catalog).delete("tenant_id == 'old'")


def overwrite(catalog: Catalog) -> None:
    table = load(catalog)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        update.delete_data_file(next(iter(table.scan().plan_files())).file)
        for file in stage(catalog, LOGS, 8, "a"):
            update.append_data_file(file)


def recreate(catalog: Catalog) -> None:
    table = load(catalog)
    catalog.drop_table(identifier(LOGS))
    catalog.create_table(
        identifier(LOGS), schema=table.schema(), partition_spec=table.spec(), properties=dict(table.properties)
    )


@pytest.mark.parametrize("change", [evolve, repartition, delete, overwrite, recreate])
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("late", [False, True], ids=["before", "at-the-commit"])
def test_what_was_staged_for_another_table_is_staged_again(
    catalog: Catalog,
    answers: Answers,
    change: Callable[[Catalog], None],
    late: bool,
) -> None:
    publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 0, "a", "old"), at(0))
    planned = base(catalog)
    files = stage(catalog, LOGS, 1, "a")

    def just_before(commit: Callable[[], Any]) -> Any:
        change(catalog)
        return commit()

    if late:
        answers.script = [just_before]
    else:
        change(catalog)
    with pytest.raises(PlanOutdated, match="logs") as caught:
        publish(catalog, LOGS, planned, files, at(1))
    assert not isinstance(caught.value, AlreadyCompacted)
    assert ("a", 1) not in stored(catalog, LOGS)
    assert base(catalog).position == at(0)


def test_rows_changed_before_the_first_publish_are_noticed_too(catalog: Catalog) -> None:
    planned = base(catalog)
    files = stage(catalog, LOGS, 1, "a")
    table = load(catalog)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for each in stage(catalog, LOGS, 9, "foreign"):
            append.append_data_file(each)
    with pytest.raises(PlanOutdated, match="changed rows"):
        publish(catalog, LOGS, planned, files, at(1))


def rewrite(catalog: Catalog) -> None:
    """A maintenance commit: a snapshot that changes no rows."""
    import pyiceberg.table.update.snapshot as updates

    table = load(catalog)
    with table.transaction() as transaction:
        append = transaction.update_snapshot().fast_append()
        append._operation = Operation.REPLACE
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(updates, "update_snapshot_summaries", lambda summary, **_: summary)
            append.commit()


@pytest.mark.parametrize("late", [False, True], ids=["before", "at-the-commit"])
@pytest.mark.parametrize("times", [1, 3])
def test_maintenance_in_between_costs_nothing_but_new_metadata(
    catalog: Catalog,
    answers: Answers,
    late: bool,
    times: int,
) -> None:
    publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 0, "a"), at(0))
    planned = base(catalog)
    files = stage(catalog, LOGS, 1, "a")

    def just_before(commit: Callable[[], Any]) -> Any:
        rewrite(catalog)
        return commit()

    if late:
        answers.script = [each for _ in range(times) for each in (just_before, lambda commit: commit())]
    else:
        for _ in range(times):
            rewrite(catalog)
    published = publish(catalog, LOGS, planned, files, at(1))
    assert stored(catalog, LOGS) == [("a", 0), ("a", 1)]
    snapshot = load(catalog).snapshot_by_id(published.snapshot_id)
    assert snapshot is not None
    parent = load(catalog).snapshot_by_id(snapshot.parent_snapshot_id or 0)
    assert parent is not None
    assert parent.summary is not None
    assert parent.summary.operation is Operation.REPLACE


def test_an_answer_lost_after_the_commit_is_published_once(catalog: Catalog, answers: Answers) -> None:
    answers.script = [lost_after]
    published = publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), at(1))
    assert stored(catalog, LOGS) == [("a", 1)]
    assert base(catalog).snapshot_id == published.snapshot_id
    assert answers.calls == 1


def test_a_request_lost_before_the_commit_is_sent_again(catalog: Catalog, answers: Answers) -> None:
    answers.script = [lost_before, lost_before]
    published = publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), at(1))
    assert stored(catalog, LOGS) == [("a", 1)]
    assert base(catalog).snapshot_id == published.snapshot_id
    assert answers.calls == 3


def test_a_commit_that_lands_late_is_recognised_as_ours(catalog: Catalog, answers: Answers) -> None:
    queued: list[Callable[[], Any]] = []

    def still_under_way(commit: Callable[[], Any]) -> Any:
        queued.append(commit)
        raise ConnectionError("timeout")

    def lands_now(commit: Callable[[], Any]) -> Any:
        queued.pop()()
        return commit()

    answers.script = [still_under_way, lands_now]
    published = publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), at(1))
    assert stored(catalog, LOGS) == [("a", 1)]
    assert base(catalog).snapshot_id == published.snapshot_id


def test_an_outcome_that_cannot_be_found_out_is_unknown(
    catalog: Catalog, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, files = base(catalog), stage(catalog, LOGS, 1, "a")
    real = catalog.load_table

    def and_then_the_catalog_is_gone(commit: Callable[[], Any]) -> Any:
        commit()

        def gone(_: Any) -> Any:
            raise ConnectionError("catalog is gone")

        monkeypatch.setattr(catalog, "load_table", gone)
        raise ConnectionError("answer lost")

    answers.script = [and_then_the_catalog_is_gone]
    with pytest.raises(CommitUnknown, match=r"answer lost.*catalog is gone") as caught:
        publish(catalog, LOGS, planned, files, at(1))
    assert caught.value.retryable
    monkeypatch.setattr(catalog, "load_table", real)
    assert stored(catalog, LOGS) == [("a", 1)]


@pytest.mark.parametrize(("answer", "word"), [(beaten, "beaten"), (lost_before, "request lost")])
def test_it_does_not_try_for_ever_and_tells_the_last_answer(
    catalog: Catalog, answers: Answers, answer: Callable[[Callable[[], Any]], Any], word: str
) -> None:
    answers.script = [answer] * 1000
    with pytest.raises(PublishError, match=word):
        publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), at(1))
    assert answers.calls == 10
    answers.script = []
    assert stored(catalog, LOGS) == []


def test_the_last_try_may_have_landed(catalog: Catalog, answers: Answers) -> None:
    answers.script = [*[lost_before] * 9, lost_after]
    publish(catalog, LOGS, base(catalog), stage(catalog, LOGS, 1, "a"), at(1))
    assert stored(catalog, LOGS) == [("a", 1)]


def test_a_position_that_is_none_stops_everything(catalog: Catalog) -> None:
    planned = base(catalog)
    with load(catalog).transaction() as transaction:
        transaction.set_properties({POSITION_PROPERTY: "somewhere"})
    with pytest.raises(IceGateError, match="not a WAL position"):
        publish(catalog, LOGS, planned, [], at(1))


def test_a_table_made_anew_during_the_first_publish_is_another_table(catalog: Catalog, answers: Answers) -> None:
    """Neither has a snapshot yet: only their ids differ."""
    planned, files = base(catalog), stage(catalog, LOGS, 1, "a")

    def just_before(commit: Callable[[], Any]) -> Any:
        recreate(catalog)
        return commit()

    answers.script = [just_before]
    with pytest.raises(PlanOutdated, match="redefined"):
        publish(catalog, LOGS, planned, files, at(1))
    assert stored(catalog, LOGS) == []
