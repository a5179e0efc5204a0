"""A store with S3's semantics and scripted faults, and a clock that only moves when someone sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Literal

from icegate.errors import ObjectNotFound, StorageError, StoreAmbiguous
from icegate.storage import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from icegate.storage import PutOutcome

Verb = Literal["put", "get", "head", "list", "delete", "settle"]


class FakeClock:
    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> int:
        return int(self.time * 1_000_000)

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.time += seconds


@dataclass(frozen=True)
class Call:
    verb: Verb
    key: str


@dataclass
class Put:
    """A create that a script decides on."""

    store: FakeStore
    key: str
    data: bytes

    def land(self) -> bool:
        """What a store does with a conditional create; False if the key exists."""
        if self.key in self.store.objects:
            return False
        self.store.objects[self.key] = self.data
        return True

    def created(self) -> PutOutcome:
        return "created" if self.land() else "exists"

    def resent(self) -> PutOutcome:
        """A proxy sends it twice; the second answer comes back."""
        self.land()
        return "exists"

    def lost_after(self) -> PutOutcome:
        """It lands and the answer is lost."""
        self.land()
        raise StoreAmbiguous("timeout")

    def lost_before(self) -> PutOutcome:
        """It never arrives, and never will."""
        raise StoreAmbiguous("connection reset")

    def delayed(self) -> PutOutcome:
        """No answer; it is still under way and lands when ``store.zombies`` are let go."""
        self.store.zombies.append(self)
        raise StoreAmbiguous("timeout")


class FakeStore:
    """Strongly consistent, in memory. ``on_put`` answers creates of segments; ``before`` sees every call first."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.calls: list[Call] = []
        self.zombies: list[Put] = []
        self.script: list[Callable[[Put], PutOutcome]] = []
        self.before: Callable[[Call], None] = lambda _call: None
        self.hidden: set[str] = set()
        """Keys that the next listing misses."""

    def _called(self, verb: Verb, key: str) -> None:
        call = Call(verb, key)
        self.calls.append(call)
        self.before(call)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._called("put", key)
        put = Put(self, key, data)
        if self.script and key.endswith(".parquet"):
            return self.script.pop(0)(put)
        return put.created()

    def get(self, key: str, *, last: int | None = None) -> bytes:
        self._called("get", key)
        if key not in self.objects:
            raise ObjectNotFound(f"no object {key}")
        data = self.objects[key]
        return data if last is None else data[-last:]

    def head(self, key: str) -> ObjectInfo | None:
        self._called("head", key)
        return ObjectInfo(key, len(self.objects[key]), 0) if key in self.objects else None

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        self._called("list", prefix)
        hidden, self.hidden = self.hidden, set()
        for key in sorted(self.objects):
            if key.startswith(prefix) and key > after and key not in hidden:
                yield ObjectInfo(key, len(self.objects[key]), 0)

    def delete(self, key: str) -> None:
        self._called("delete", key)
        self.objects.pop(key, None)

    def settle(self, prefix: str) -> None:
        self._called("settle", prefix)

    def puts(self) -> list[str]:
        """Keys of the segments that were tried, in order."""
        return [call.key for call in self.calls if call.verb == "put" and call.key.endswith(".parquet")]

    def let_zombies_go(self) -> None:
        zombies, self.zombies = self.zombies, []
        for each in zombies:
            each.land()


def failing(times: int, *verbs: Verb, only: str = "") -> Callable[[Call], None]:
    """A hook that fails the next calls of these verbs (whose key ends in ``only``)."""
    left = [times]

    def hook(call: Call) -> None:
        if call.verb in verbs and call.key.endswith(only) and left[0] > 0:
            left[0] -= 1
            raise StorageError(f"{call.verb} failed")

    return hook


def seeded(seed: int = 0) -> Random:
    return Random(seed)
