"""A server that speaks S3, for the tests that need the real transport."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from moto.server import ThreadedMotoServer

from icegate.storage import S3Options

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class S3Server:
    options: S3Options
    client: Any

    def new_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex}"
        self.client.create_bucket(Bucket=name)
        return name


@contextmanager
def running_s3() -> Iterator[S3Server]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = S3Options(
        endpoint=f"http://{host}:{port}",
        region="us-east-1",
        access_key_id="testing",
        secret_access_key="testing",
        path_style=True,
    )
    client = boto3.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name=options.region,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
    )
    yield S3Server(options, client)
    client.close()
    server.stop()
