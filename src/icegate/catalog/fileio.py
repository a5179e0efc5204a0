"""pyiceberg's file access, made durable on a local folder.

The catalog's commit points at a metadata file; after a power loss that file must still be there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from icegate.storage.local import DurableFile
from icegate.storage.location import path_of

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputStream


class _DurableOutput(OutputFile):
    def __init__(self, location: str, io: PyArrowFileIO) -> None:
        super().__init__(location)
        self._io = io

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return self._io.new_input(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - pyiceberg's signature
        return DurableFile(Path(path_of(self.location)), overwrite=overwrite)


class DurableFileIO(PyArrowFileIO):
    """Reads as pyiceberg does; what it writes to a local path survives a power loss."""

    def new_output(self, location: str) -> Any:
        """An output file for a ``file://`` address."""
        return _DurableOutput(location, self)
