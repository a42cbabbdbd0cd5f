"""What the compose files promise, as far as it shows without an engine; tools/prove_containers.sh shows the rest."""

import ipaddress
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings
from tests.conftest import serving
from tests.servers.fixtures import absent

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = {
    name: (ROOT / name).read_text() for name in ("docker-compose.yml", "docker-compose.single.yml")
}
WHOLE: dict[str, Any] = yaml.safe_load(FILES["docker-compose.yml"])
SINGLE: dict[str, Any] = yaml.safe_load(FILES["docker-compose.single.yml"])
SERVICES = WHOLE["services"] | SINGLE["services"]
ONCE = {"bucket", "metrics-key"}  # end as soon as they have done their work
VARIABLE = re.compile(r"^([A-Z_]+)=(.*)$", re.MULTILINE)
EXAMPLE = dict(VARIABLE.findall((DEPLOY / "example.env").read_text()))


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened_and_watched(name):
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"(\$\{PAYOFF_UID:-)?[1-9]\d*\}?:\d+", service["user"]), (
        "a numeric user that is not root"
    )
    assert service["mem_limit"]
    assert service["pids_limit"] <= 512
    assert service["init"] is True
    once = name in ONCE
    assert service["restart"] == ("on-failure" if once else "unless-stopped")
    assert service["healthcheck"].keys() >= (
        {"disable"} if once else {"test", "interval", "timeout"}
    )


@pytest.mark.parametrize("name", WHOLE["services"])
def test_images_are_pinned_and_only_the_front_is_published(name):
    service = WHOLE["services"][name]
    outer = [
        network
        for network in service["networks"]
        if not (WHOLE["networks"][network] or {}).get("internal")
    ]

    assert service["image"] == "payoff" or re.search(r":v?\d+\.\d+", service["image"])
    assert all(
        re.match(r"(\$\{PAYOFF_BIND:-)?127\.0\.0\.1\}?:", port) for port in service.get("ports", [])
    )
    assert len(outer) == ("ports" in service), "whoever is not published has no way out"


def neighbours() -> dict[str, set[str]]:
    """With whom each service shares a network."""
    services = WHOLE["services"]
    found: dict[str, set[str]] = {name: set() for name in services}
    for one, other in itertools.permutations(services, 2):
        if set(services[one]["networks"]) & set(services[other]["networks"]):
            found[one].add(other)
    return found


def test_who_can_reach_whom_is_what_the_documentation_says():
    page = (ROOT / "docs" / "how-to" / "containers.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (`[^|]*`) \|", page, re.MULTILINE)
    documented = {name: set(re.findall(r"`([\w-]+)`", others)) for name, others in rows}

    assert neighbours() == documented


SECRETS = {
    "POSTGRES_PASSWORD": {"service", "worker", "metrics-key", "postgres"},
    "STORE_SECRET_KEY": {"service", "worker", "bucket", "store"},
    "PAYOFF_ADMIN_KEY": {"service"},
    "GRAFANA_PASSWORD": {"grafana"},
}


def test_each_secret_is_given_only_to_those_that_need_it():
    given = {
        secret: {
            name
            for name, service in WHOLE["services"].items()
            if f"${{{secret}:" in json.dumps(service)
        }
        for secret in SECRETS
    }

    assert given == SECRETS


def test_replicas_trust_the_balancer_and_nobody_else():
    front = WHOLE["networks"]["front"]["ipam"]["config"]
    subnet, replicas = (
        ipaddress.ip_network(default(front[0][name])) for name in ("subnet", "ip_range")
    )
    members = {
        name for name, service in WHOLE["services"].items() if "front" in service["networks"]
    }
    balancer = WHOLE["services"]["balancer"]["networks"]["front"]["ipv4_address"]
    address = ipaddress.ip_address(default(balancer))

    assert WHOLE["services"]["service"]["environment"]["PAYOFF_TRUSTED_PROXIES"] == balancer
    assert members == {"balancer", "service"}
    assert address in subnet
    assert address not in replicas, "a replica could be given the balancer's address"
    assert replicas.subnet_of(subnet)


def default(text: str) -> str:
    return text.partition(":-")[2].rstrip("}")


@pytest.mark.thorough
def test_the_key_of_prometheus_is_made_once_and_opens_metrics_alone(tmp_path):
    file = tmp_path / "metrics"
    settings = Settings(
        home=tmp_path / "home", models=str(tmp_path / "models"), workers=0, admin_key="chosen"
    )
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PAYOFF_HOME": str(settings.home),
    }

    def made() -> str:
        subprocess.run(
            [DEPLOY / "metrics-key.sh", file], env=environment, check=True, capture_output=True
        )
        return file.read_text().strip()

    first = made()
    assert made() == first, "it is in force"
    file.unlink()
    second = made()

    assert file.stat().st_mode & 0o777 == 0o444
    with serving(settings) as client:
        asked = [
            client.get("/metrics", headers={"X-API-Key": key}).status_code
            for key in (first, second)
        ]
        assert asked == [401, 200], "the key that is lost is revoked"
        for path in ("/models", "/datasets", "/train", "/audit"):
            assert client.get(path, headers={"X-API-Key": second}).status_code == 403


def variables(name: str) -> list[tuple[str, str]]:
    """What a compose file takes from the environment, each with what follows: a default, or that it must be there."""
    return re.findall(r"(?<!\$)\$\{([A-Z_]+):([-?][^}]*)\}", FILES[name])


def test_every_variable_is_in_the_example_and_defaults_agree():
    assert {name for file in FILES for name, _ in variables(file)} == EXAMPLE.keys()
    for name, otherwise in variables("docker-compose.yml"):
        assert otherwise == (f"-{EXAMPLE[name]}" if EXAMPLE[name] else "?run deploy/secrets.sh")
    for name, otherwise in variables("docker-compose.single.yml"):
        assert otherwise == f"-{EXAMPLE[name]}"


def test_secrets_are_made_where_they_are_missing_and_never_made_again(tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    for file in files:
        subprocess.run([DEPLOY / "secrets.sh", file], check=True)
    first, second = (dict(VARIABLE.findall(file.read_text())) for file in files)
    for name, value in EXAMPLE.items():
        if value:
            assert first[name] == second[name] == value
        else:
            assert re.fullmatch(r"[0-9a-f]{48}", first[name])
            assert first[name] != second[name]
    assert files[0].stat().st_mode & 0o077 == 0

    again = subprocess.run([DEPLOY / "secrets.sh", files[0]], capture_output=True, check=False)
    assert again.returncode != 0
    assert dict(VARIABLE.findall(files[0].read_text())) == first


def test_prometheus_understands_its_files():
    if not shutil.which("promtool"):
        absent("promtool is not installed (Debian: apt-get install prometheus)")
    for check in (
        ["config", "--syntax-only", DEPLOY / "prometheus.yml"],
        ["rules", DEPLOY / "alerts.yml"],
    ):
        found = subprocess.run(
            ["promtool", "check", *check], capture_output=True, text=True, check=False
        )

        assert found.returncode == 0, found.stdout + found.stderr
