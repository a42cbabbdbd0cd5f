"""nginx with the project's configuration before replicas on ports of this machine."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.conftest import free_port

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"


@contextmanager
def balancing(folder: Path, *ports: int) -> Iterator[int]:
    """The port of an nginx before these replicas, which ends with the block; bodies but uploads may have 64 KB."""
    port, health = free_port(), folder / "health"
    group = "".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports)
    text = CONFIGURATION.read_text().replace(
        "set $replica service:8000;", "set $replica replicas;"
    )
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};")
    text = text.replace(
        "  server {", f"  upstream replicas {{ {group} }}\n  server {{", 1
    )
    assert "client_max_body_size 64m" in text
    text = text.replace("client_max_body_size 64m", "client_max_body_size 64k")
    text = re.sub(r"/tmp/(\w)", rf"{folder}/\1", text).replace(
        "/dev/stdout", f"{folder}/access.log"
    )
    text = text.replace("127.0.0.1:8081", f"unix:{health}")
    (folder / "nginx.conf").write_text(
        "daemon off;\n" + ("user root;\n" if os.geteuid() == 0 else "") + text
    )
    command = ["nginx", "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf"]
    with (folder / "error.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        _await(process, health)
        yield port
    finally:
        process.terminate()
        process.wait()


def _await(process: subprocess.Popen[bytes], health: Path) -> None:
    """Wait until it answers for its own health."""
    for _ in range(3000):
        with socket.socket(
            socket.AF_UNIX
        ) as probe:  # httpcore leaks a Unix socket that cannot be connected
            if probe.connect_ex(str(health)) == 0:
                break
        assert process.poll() is None, "nginx does not start"
        time.sleep(0.02)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(health))) as checking:
        assert checking.get("http://health/").text == "ok\n"
