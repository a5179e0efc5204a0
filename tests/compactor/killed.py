"""A compactor that says where it is, and then stays there to be killed: ``killed.py FOLDER staged|published``."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from icegate.catalog.open import CatalogOptions
from icegate.storage import Location
from icegate_compactor import CompactOptions, Compactor, SparkOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icegate.catalog.publish import Published
    from icegate_compactor import Plan
    from icegate_compactor.files import StagedFile


class Stop:
    def __init__(self, moment: str) -> None:
        self._moment = moment

    def planned(self, plan: Plan) -> None:
        pass

    def stage_progress(self, done: int, total: int) -> None:
        pass

    def staged(self, plan: Plan, files: Sequence[StagedFile]) -> None:
        assert files
        self._stay("staged", plan)

    def published(self, plan: Plan, published: Published) -> None:
        assert published.snapshot_id
        self._stay("published", plan)

    def _stay(self, moment: str, plan: Plan) -> None:
        if moment == self._moment:
            sys.stdout.write(f"{moment} {plan.table.name}\n")
            sys.stdout.flush()
            threading.Event().wait()


if __name__ == "__main__":
    folder, moment = sys.argv[1:]
    spark = SparkOptions(master="local[1]")
    Compactor(Location.parse(folder), CatalogOptions(), spark, CompactOptions(), Stop(moment)).run_once()
