"""A local folder as a durable object store.

Create = write a temporary file, fsync it, link it to its name, fsync the folder. Until the folder is synced a power
loss may forget the name, so ``exists`` is answered only after a sync too: it may be our own earlier try.
"""

from __future__ import annotations

import io
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from icegate.errors import ObjectNotFound, StorageError, StoreAmbiguous
from icegate.storage.port import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from icegate.storage.port import PutOutcome

TEMPORARY = ".tmp-"

# Folders whose name this process has synced.
_durable: set[Path] = set()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably.

    One that exists may have been made a moment ago by a process that has not synced it yet, so its name is synced too.
    """
    if folder in _durable and folder.is_dir():
        return
    for each in reversed((folder, *folder.parents)):
        if each in _durable and each.is_dir():
            continue
        if each.is_dir():
            with suppress(PermissionError):  # above the data folder a process may pass without being let to look
                sync_folder(each.parent)
        else:
            each.mkdir(exist_ok=True)
            sync_folder(each.parent)
        _durable.add(each)


class DurableFile(io.BufferedWriter):
    """A file that is on the disk, name and content, once closed."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        make_folder(path.parent)
        self._folder = path.parent
        super().__init__(io.FileIO(path, "w" if overwrite else "x"))

    def close(self) -> None:
        """Flush, sync, close."""
        if not self.closed:
            try:
                self.flush()
                os.fsync(self.fileno())
            finally:
                super().close()
            sync_folder(self._folder)


class LocalStore:
    """Objects are files below ``root``; any number of processes of one host may share it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        try:
            make_folder(root)
        except OSError as error:
            raise StorageError(f"cannot create the data folder {root}: {error}") from error

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        """Create the file, durable on return."""
        path = self._root / key
        try:
            make_folder(path.parent)
            temporary = path.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
            try:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(temporary, path)
                    created = True
                except FileExistsError:
                    created = False
            finally:
                with suppress(OSError):  # it is invisible
                    temporary.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error}") from error
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise StoreAmbiguous(f"{path} is there, but perhaps not for ever: {error}") from error
        return "created" if created else "exists"

    def get(self, key: str, *, last: int | None = None) -> bytes:
        """Read the file or its end."""
        try:
            with (self._root / key).open("rb") as file:
                if last is not None:
                    size = os.fstat(file.fileno()).st_size
                    file.seek(max(0, size - last))
                return file.read()
        except FileNotFoundError as error:
            raise ObjectNotFound(f"no object {key} in {self._root}") from error
        except OSError as error:
            raise StorageError(f"cannot read {key} in {self._root}: {error}") from error

    def head(self, key: str) -> ObjectInfo | None:
        """Stat the file."""
        return self._info(key)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """Walk the folder; files that vanish on the way are left out."""
        try:
            keys = sorted(key for key in self._keys(prefix.rstrip("/")) if key > after)
        except OSError as error:
            raise StorageError(f"cannot list {prefix} in {self._root}: {error}") from error
        for key in keys:
            if (info := self._info(key)) is not None:
                yield info

    def delete(self, key: str) -> None:
        """Remove the file."""
        try:
            (self._root / key).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot delete {key} in {self._root}: {error}") from error

    def settle(self, prefix: str) -> None:
        """Sync the folder, so that no name a listing has shown can be lost."""
        folder = self._root / prefix.rstrip("/")
        try:
            sync_folder(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot sync {folder}: {error}") from error

    def _info(self, key: str) -> ObjectInfo | None:
        try:
            stat = (self._root / key).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot look up {key} in {self._root}: {error}") from error
        # The change time is when the name appeared; the modification time is when its content was written, before that.
        return ObjectInfo(key, stat.st_size, stat.st_ctime_ns // 1000)

    def _keys(self, folder: str) -> Iterator[str]:
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    if entry.is_dir():
                        yield from self._keys(f"{folder}/{entry.name}")
                    elif not entry.name.startswith(TEMPORARY):
                        yield f"{folder}/{entry.name}"
        except FileNotFoundError:
            return
