"""Tenants: whose rows they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from icegate.errors import InvalidTenant

if TYPE_CHECKING:
    from collections.abc import Sequence

#: HTTP header, and in lower case gRPC metadata key, that names the tenant.
TENANT_HEADER: Final = "X-Scope-OrgID"
_VALID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def resolve_tenant(given: str | None, default: str | None) -> str:
    """The tenant of a request.

    Args:
        given: the header's value, None if there is no such header.
        default: the tenant of requests without one, None if they are refused.

    Raises:
        InvalidTenant: missing without a default, or not a valid name; a bad name never becomes the default.
    """
    tenant = default if given is None else given
    if tenant is None:
        raise InvalidTenant(f"no tenant: send the header {TENANT_HEADER}")
    if not _VALID.fullmatch(tenant):
        raise InvalidTenant(
            f"tenant {tenant[:200]!r} is not a valid name: 1-128 letters, digits, '_', '.' or '-',"
            " starting with a letter or digit"
        )
    return tenant


def one_tenant(given: Sequence[str]) -> str | None:
    """The header's value out of all that were sent; several become one that is not a valid name.

    A proxy that adds a tenant to one the client sent itself must not leave it to chance which of them counts.
    """
    return ",".join(given) if given else None
