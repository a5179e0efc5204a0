"""The local folder: durable before it answers, and nothing half-written is ever seen."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from icegate.errors import StorageError, StoreAmbiguous
from icegate.storage import local
from icegate.storage.local import TEMPORARY, DurableFile, LocalStore, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier

real_fsync, real_link, real_unlink, real_mkdir = os.fsync, os.link, os.unlink, os.mkdir


class Recorder:
    """Notes, in order, what was made durable and what was named."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(os, "link", self._link)
        monkeypatch.setattr(os, "mkdir", self._mkdir)

    def _fsync(self, descriptor: int) -> None:
        self.calls.append(("fsync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        real_fsync(descriptor)

    def _link(self, source: Path, target: Path) -> None:
        assert source.read_bytes(), "the content is written before the file is named"
        self.calls.append(("link", f"{source} {target}"))
        real_link(source, target)

    def _mkdir(self, path: Path, mode: int = 0o777) -> None:
        self.calls.append(("mkdir", str(path)))
        real_mkdir(path, mode)


def temporaries(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name.startswith(TEMPORARY)]


def test_content_is_synced_before_it_is_named_and_the_name_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/warm", b"up")
    recorder = Recorder(monkeypatch)
    assert store.put_if_absent("f/k", b"data") == "created"
    [(first, written), (second, linked), (third, folder)] = recorder.calls
    assert (first, second, third) == ("fsync", "link", "fsync")
    assert linked == f"{written} {tmp_path / 'f/k'}"
    assert folder == str(tmp_path / "f")
    assert temporaries(tmp_path) == []


def test_exists_is_answered_only_once_the_name_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/k", b"data")
    recorder = Recorder(monkeypatch)
    assert store.put_if_absent("f/k", b"other") == "exists"
    assert recorder.calls[-1] == ("fsync", str(tmp_path / "f"))
    assert recorder.calls[-2][0] == "link"
    assert temporaries(tmp_path) == []


def test_new_folders_are_named_durably_before_anything_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    recorder = Recorder(monkeypatch)
    store.put_if_absent("a/b/k", b"data")
    a, b = str(tmp_path / "a"), str(tmp_path / "a/b")
    calls = [call for call in recorder.calls if call[0] != "link"]
    assert calls[:4] == [("mkdir", a), ("fsync", str(tmp_path)), ("mkdir", b), ("fsync", a)]


def test_a_folder_that_another_process_has_just_made_is_synced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    real_mkdir(tmp_path / "theirs")  # and not synced yet
    recorder = Recorder(monkeypatch)
    store.put_if_absent("theirs/k", b"data")
    assert recorder.calls.index(("fsync", str(tmp_path))) < len(recorder.calls) - 1
    recorder.calls.clear()
    store.put_if_absent("theirs/l", b"data")
    assert ("fsync", str(tmp_path)) not in recorder.calls, "once is enough"


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/k", b"1")
    (tmp_path / "f/k").unlink()
    (tmp_path / "f").rmdir()
    assert store.put_if_absent("f/k", b"2") == "created"


def test_a_crash_before_the_link_leaves_nothing_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)

    def crash(*_: Any, **__: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(os, "link", crash)
    monkeypatch.setattr(Path, "unlink", crash)  # a dead process does not tidy up either
    with pytest.raises(SystemExit):
        store.put_if_absent("f/k", b"data")
    monkeypatch.undo()
    assert temporaries(tmp_path) != []
    assert list(store.list_after("f/")) == []
    assert store.head("f/k") is None
    assert store.put_if_absent("f/k", b"other") == "created"
    assert [info.key for info in store.list_after("f/")] == ["f/k"]


@pytest.mark.parametrize("broken", ["link", "fsync"])
def test_a_failed_create_is_an_error_and_leaves_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/warm", b"up")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(StorageError, match="No space left") as caught:
        store.put_if_absent("f/k", b"data")
    assert not isinstance(caught.value, StoreAmbiguous)
    monkeypatch.undo()
    assert store.head("f/k") is None
    assert temporaries(tmp_path) == []


def test_a_name_that_could_not_be_synced_is_an_unknown_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/warm", b"up")

    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(local, "sync_folder", fail)
    with pytest.raises(StoreAmbiguous, match="Input/output error"):
        store.put_if_absent("f/k", b"data")
    assert store.get("f/k") == b"data"


def test_settle_syncs_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/k", b"data")
    recorder = Recorder(monkeypatch)
    store.settle("f/")
    assert recorder.calls == [("fsync", str(tmp_path / "f"))]


def test_an_objects_time_is_when_its_name_appeared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("f/earlier", b"data")

    def late(source: Path, target: Path) -> None:
        os.utime(source, (1, 1))  # written long before it is named
        real_link(source, target)

    monkeypatch.setattr(os, "link", late)
    store.put_if_absent("f/later", b"data")
    earlier, later = store.list_after("f/")
    assert later.modified >= earlier.modified


def test_a_file_that_vanishes_during_a_listing_is_left_out(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for name in "abc":
        store.put_if_absent(f"f/{name}", b"")
    listing = store.list_after("f/")
    assert next(listing).key == "f/a"
    store.delete("f/b")
    assert [info.key for info in listing] == ["f/c"]


def test_every_failure_of_the_disk_is_a_storage_error(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_if_absent("file", b"not a folder")
    store.put_if_absent("folder/key", b"")
    too_long = "x" * 300
    broken: list[Callable[[], object]] = [
        lambda: store.put_if_absent("file/key", b""),
        lambda: store.get("folder"),
        lambda: store.head(too_long),
        lambda: list(store.list_after("file/")),
        lambda: store.delete("folder"),
        lambda: store.settle("file/"),
        lambda: LocalStore(tmp_path / "file/below"),
    ]
    for call in broken:
        with pytest.raises(StorageError, match=r"file|folder|x"):
            call()


def _race(root: str, barrier: Barrier, rounds: int) -> list[str]:
    store = LocalStore(Path(root))
    won = []
    for n in range(rounds):
        barrier.wait(30)
        if store.put_if_absent(f"race/{n}", str(os.getpid()).encode()) == "created":
            won.append(f"race/{n} {os.getpid()}")
    return won


def test_of_racing_processes_exactly_one_wins_each_key(tmp_path: Path) -> None:
    rounds, racers = 30, 3
    context = multiprocessing.get_context("forkserver")
    with context.Manager() as manager, context.Pool(racers) as pool:
        barrier = manager.Barrier(racers)
        wins = pool.starmap(_race, [(str(tmp_path), barrier, rounds)] * racers, chunksize=1)
    store = LocalStore(tmp_path)
    expected = [f"race/{n} {store.get(f'race/{n}').decode()}" for n in range(rounds)]
    assert sorted(each for won in wins for each in won) == sorted(expected)
    assert temporaries(tmp_path) == []


def test_a_durable_file_is_synced_with_its_folder_once_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(tmp_path / "m")
    recorder = Recorder(monkeypatch)
    with DurableFile(tmp_path / "m/file") as file:
        file.write(b"content")
        assert recorder.calls == []
    assert recorder.calls == [("fsync", str(tmp_path / "m/file")), ("fsync", str(tmp_path / "m"))]
    file.close()
    assert len(recorder.calls) == 2
    assert (tmp_path / "m/file").read_bytes() == b"content"


def test_a_durable_file_overwrites_only_if_told_to(tmp_path: Path) -> None:
    with DurableFile(tmp_path / "deep/er/file") as file:
        file.write(b"old")
    with pytest.raises(FileExistsError):
        DurableFile(tmp_path / "deep/er/file")
    with DurableFile(tmp_path / "deep/er/file", overwrite=True) as file:
        file.write(b"new")
    assert (tmp_path / "deep/er/file").read_bytes() == b"new"


def test_a_durable_file_that_cannot_be_synced_is_closed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = DurableFile(tmp_path / "file")
    file.write(b"content")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        file.close()
    assert file.closed
