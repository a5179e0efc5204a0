"""Whose rows they are: a bad name is refused and never becomes somebody else's."""

from __future__ import annotations

import pytest

from icegate.errors import InvalidTenant
from icegate.tenant import TENANT_HEADER, resolve_tenant

INVALID = [
    "", " ", "a b", "a/b", "..", ".a", "-a", "_a", "a\n", "\na", "a\x00", "é", "\u0661", "a" * 129, "a=b", "a|b", "%61",
]  # fmt: skip


@pytest.mark.parametrize("name", ["a", "A1", "0", "team-1.prod_eu", "a..b", "a" * 128])
@pytest.mark.parametrize("default", [None, "fallback"])
def test_a_valid_name_is_taken_as_it_is(name: str, default: str | None) -> None:
    assert resolve_tenant(name, default) == name


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("default", [None, "fallback"])
def test_an_invalid_name_is_refused_with_or_without_a_default(name: str, default: str | None) -> None:
    with pytest.raises(InvalidTenant, match="not a valid name") as caught:
        resolve_tenant(name, default)
    assert (caught.value.retryable, caught.value.http_status) == (False, 400)


def test_a_missing_name_is_the_default() -> None:
    assert resolve_tenant(None, "fallback") == "fallback"


def test_a_missing_name_without_a_default_is_refused_and_says_which_header() -> None:
    with pytest.raises(InvalidTenant, match=TENANT_HEADER):
        resolve_tenant(None, None)


def test_an_endless_name_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidTenant) as caught:
        resolve_tenant("x" * 1_000_000, None)
    assert len(str(caught.value)) < 500


def test_a_bad_default_does_not_let_rows_in() -> None:
    with pytest.raises(InvalidTenant):
        resolve_tenant(None, "a/b")
