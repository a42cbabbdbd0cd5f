"""An S3 server from PyPI: moto's."""

import secrets
from collections.abc import Mapping

import boto3

from tests.servers.program import Program, free_port, listening


class ObjectStore(Program):
    """Keeps its objects in memory: killing it loses them, so what is to survive is killed at a `Proxy` before it."""

    name = "s3"
    module = "tests.servers.s3_server"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return ["-H", "127.0.0.1", "-p", str(self.port)]

    def ready(self) -> bool:
        return listening(self.port)

    def create_bucket(self) -> str:
        """The `s3://` URL of a fresh empty bucket."""
        name = f"test-{secrets.token_hex(6)}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}"

    def client(self):
        """Amazon's own client of it."""
        return boto3.client("s3", **_CREDENTIALS, endpoint_url=self.endpoint)


def access(endpoint: str) -> Mapping[str, str]:
    """The variables by which any S3 client finds the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": _CREDENTIALS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": _CREDENTIALS["aws_secret_access_key"],
        "AWS_DEFAULT_REGION": _CREDENTIALS["region_name"],
    }


_CREDENTIALS = {
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
    "region_name": "us-east-1",
}
