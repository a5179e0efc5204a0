"""Time bounds: which rows of a table a query can possibly use, read off its optimised plan.

Bounds only ever leave data out, so whatever is not understood means no bounds. A subquery that is still inside an
expression is not an input of the plan, so its scans are not seen: then no table has bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from datafusion.expr import BinaryExpr, Column, Filter, Literal, TableScan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datafusion import Expr
    from datafusion.plan import LogicalPlan

_TIME: Final = "timestamp"
_FROM: Final = frozenset({">", ">=", "="})
_TO: Final = frozenset({"<", "<=", "="})
#: How a plan's text shows a subquery inside an expression.
_SUBQUERY: Final = "<subquery>"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Microseconds since the epoch, both ends included; None = open."""

    low: int | None = None
    high: int | None = None

    def overlaps(self, low: int, high: int) -> bool:
        """Whether rows between ``low`` and ``high`` may be within."""
        return (self.high is None or low <= self.high) and (self.low is None or high >= self.low)

    def padded(self, margin: int) -> Bounds:
        """Wider by ``margin`` microseconds on each side."""
        return Bounds(
            None if self.low is None else self.low - margin, None if self.high is None else self.high + margin
        )

    def narrowed(self, other: Bounds) -> Bounds:
        """What is within both."""
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Bounds(max(lows, default=None), min(highs, default=None))

    def widened(self, other: Bounds) -> Bounds:
        """What is within either, and what lies between."""
        return Bounds(
            None if self.low is None or other.low is None else min(self.low, other.low),
            None if self.high is None or other.high is None else max(self.high, other.high),
        )


def bounds_of(optimised: LogicalPlan) -> dict[str, Bounds]:
    """Per table, bounds on ``timestamp`` outside of which no row matters; a table without bounds is left out."""
    if _SUBQUERY in optimised.display_indent():
        return {}
    found: dict[str, Bounds] = {}
    for table, bounds in _walk(optimised, Bounds()):
        found[table] = found[table].widened(bounds) if table in found else bounds
    return found


def _walk(plan: LogicalPlan, above: Bounds) -> Iterator[tuple[str, Bounds]]:
    """Every scan with the bounds of the filter directly above it."""
    try:
        node = plan.to_variant()
    except Exception:  # noqa: BLE001 - the binding has no form for some nodes; none of them is a scan or a filter
        node = None
    if isinstance(node, TableScan):
        yield node.table_name(), above
    below = _of_predicate(node.predicate()) if isinstance(node, Filter) else Bounds()
    for each in plan.inputs():
        yield from _walk(each, below)


def _of_predicate(predicate: Expr) -> Bounds:
    variant = _variant(predicate)
    if not isinstance(variant, BinaryExpr):
        return Bounds()
    left, operator, right = variant.left(), variant.op(), variant.right()
    if operator == "AND":
        return _of_predicate(left).narrowed(_of_predicate(right))
    column, literal = _variant(left), _variant(right)  # the optimiser puts the literal last, and in the column's type
    if not (isinstance(column, Column) and column.name() == _TIME and isinstance(literal, Literal)):
        return Bounds()
    value = literal.value_timestamp()[0]
    return Bounds(value if operator in _FROM else None, value if operator in _TO else None)


def _variant(expression: Expr) -> object:
    try:
        return expression.to_variant()
    except Exception:  # noqa: BLE001 - the binding has no form for some expressions
        return None
