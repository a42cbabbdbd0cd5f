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
from tests.servers.s3 import access

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = {
    name: (ROOT / name).read_text()
    for name in ("docker-compose.yml", "docker-compose.single.yml")
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
        re.match(r"(\$\{PAYOFF_BIND:-)?127\.0\.0\.1\}?:", port)
        for port in service.get("ports", [])
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
        name
        for name, service in WHOLE["services"].items()
        if "front" in service["networks"]
    }
    balancer = WHOLE["services"]["balancer"]["networks"]["front"]["ipv4_address"]
    address = ipaddress.ip_address(default(balancer))

    assert (
        WHOLE["services"]["service"]["environment"]["PAYOFF_TRUSTED_PROXIES"]
        == balancer
    )
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
        home=tmp_path / "home",
        models=str(tmp_path / "models"),
        workers=0,
        admin_key="chosen",
    )
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PAYOFF_HOME": str(settings.home),
    }

    def made() -> str:
        subprocess.run(
            [DEPLOY / "metrics-key.sh", file],
            env=environment,
            check=True,
            capture_output=True,
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
        assert otherwise == (
            f"-{EXAMPLE[name]}" if EXAMPLE[name] else "?run deploy/secrets.sh"
        )
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

    again = subprocess.run(
        [DEPLOY / "secrets.sh", files[0]], capture_output=True, check=False
    )
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


def test_health_checks_ask_whether_the_process_lives():
    """An outage of the database makes replicas unready; whoever replaced them would end predictions."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    checks = [
        json.dumps(SERVICES[name]["healthcheck"]) for name in ("service", "payoff")
    ]

    for check in (dockerfile, *checks):
        assert "/health/live" in check
        assert "/health/ready" not in check


def megabytes(limit: str) -> int:
    amount, unit = re.fullmatch(r"(?:\$\{\w+:-)?(\d+)([mg])\}?", limit).groups()
    return int(amount) * {"m": 1, "g": 1024}[unit]


def test_the_page_has_the_limits_of_all_containers_and_their_sum():
    page = (ROOT / "docs" / "how-to" / "containers.md").read_text()
    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d) \| ([\d,]+) MB \| ([\d.]+) \|", page, re.MULTILINE
    )
    documented = {name: tuple(row) for name, *row in rows}
    lasting = {
        name: service for name, service in WHOLE["services"].items() if name not in ONCE
    }
    limits = {
        name: (
            service.get("scale", 1),
            megabytes(service["mem_limit"]),
            service["cpus"],
        )
        for name, service in lasting.items()
    }
    memory = sum(number * size for number, size, _ in limits.values())
    cores = sum(number * share for number, _, share in limits.values())

    assert documented == {
        name: (str(number), f"{size:,}", f"{share:g}")
        for name, (number, size, share) in limits.items()
    }
    assert f"**{memory / 1024:g} GB** of memory and **{cores:g} cores**" in page


def test_the_bucket_is_copied_into_a_folder_and_back(
    object_store, monkeypatch, tmp_path
):
    """By the script as it is; in place of the container its program runs here."""
    for name, value in access(object_store.endpoint).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "docker").write_text(
        f'#!/bin/sh\nwhile [ "$1" != python3 ]; do shift; done\n'
        f'exec {sys.executable} - "$3" "{tmp_path}/copy"\n'
    )
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    client = object_store.client()
    client.create_bucket(Bucket="payoff")
    objects = {"models/triage/1/card.json": b"{}", "decisions/2026-11-28/day": b"rows"}
    for key, body in objects.items():
        client.put_object(Bucket="payoff", Key=key, Body=body)

    def copied(way: str) -> str:
        command = [DEPLOY / "copy-bucket.sh", way, tmp_path / "copy"]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout

    assert "2 objects, of which 2" in copied("out")
    assert "2 objects, of which 0" in copied("out")
    client.delete_object(Bucket="payoff", Key="models/triage/1/card.json")
    assert "2 objects, of which 1" in copied("back")
    for key, body in objects.items():
        assert (tmp_path / "copy" / key).read_bytes() == body
        assert client.get_object(Bucket="payoff", Key=key)["Body"].read() == body


def test_actions_of_the_workflow_are_pinned_by_digest():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    actions = re.findall(r"uses: (.*)", workflow)

    assert actions
    assert all(
        re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", action) for action in actions
    )


def test_programs_of_npm_are_pinned_by_digest():
    lock = json.loads((ROOT / "tools" / "node" / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}

    assert "npm ci" in (ROOT / ".ci" / "run").read_text()
    assert packages
    assert all(
        package["integrity"].startswith("sha512-") for package in packages.values()
    )
