"""What tests that start Spark have in common."""

from __future__ import annotations

import pytest

#: Warnings that pyspark and py4j cause by themselves.
MARKS = (
    # pyspark 3.5 asks distutils for versions.
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
    # py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
)
