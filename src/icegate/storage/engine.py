"""Let a DataFusion session read a location."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datafusion import SessionContext

    from icegate.storage.location import Location


def register(context: SessionContext, location: Location) -> None:
    """Register the location's bucket; local files need nothing."""
    if location.is_local:
        return
    from datafusion.object_store import AmazonS3

    options = location.s3
    named: dict[str, Any] = {
        "region": options.region,
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "session_token": options.session_token,
        "endpoint": options.endpoint,
        "allow_http": options.plain_http or None,
    }
    store = AmazonS3(bucket_name=location.bucket, **{k: v for k, v in named.items() if v is not None})
    context.register_object_store("s3://", store, host=location.bucket)
