"""What the compose files promise, as far as it shows without an engine; tools/prove_containers.sh shows the rest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = {name: (ROOT / name).read_text() for name in ("docker-compose.yml", "docker-compose.single.yml")}
WHOLE: dict[str, Any] = yaml.safe_load(FILES["docker-compose.yml"])
SINGLE: dict[str, Any] = yaml.safe_load(FILES["docker-compose.single.yml"])
SERVICES = WHOLE["services"] | SINGLE["services"]
VARIABLE = re.compile(r"^([A-Z_]+)=(.*)$", re.MULTILINE)
EXAMPLE = dict(VARIABLE.findall((DEPLOY / "example.env").read_text()))


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened_and_watched(name):
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"(\$\{PAYOFF_UID:-)?[1-9]\d*\}?:\d+", service["user"]), "a numeric user that is not root"
    assert service["mem_limit"]
    once = name == "bucket"
    assert service["restart"] == ("on-failure" if once else "unless-stopped")
    assert service["healthcheck"].keys() >= ({"disable"} if once else {"test", "interval", "timeout"})


@pytest.mark.parametrize("name", WHOLE["services"])
def test_images_are_pinned_and_only_the_front_is_published(name):
    service = WHOLE["services"][name]
    inner = set(service["networks"]) - {"outside"}

    assert service["image"] == "payoff" or re.search(r":v?\d+\.\d+", service["image"])
    assert all(WHOLE["networks"][network]["internal"] for network in inner)
    assert all(re.match(r"(\$\{PAYOFF_BIND:-)?127\.0\.0\.1\}?:", port) for port in service.get("ports", []))
    assert ("ports" in service) == ("outside" in service["networks"])


def test_who_is_waited_for_exists_and_is_waited_for_until_healthy():
    for service in WHOLE["services"].values():
        for other, how in service.get("depends_on", {}).items():
            assert other in WHOLE["services"]
            ready = "service_completed_successfully" if other == "bucket" else "service_healthy"
            assert how == {"condition": ready}


def variables(name: str) -> list[tuple[str, str]]:
    """What a compose file takes from the environment, each with what follows: a default, or that it must be there."""
    return re.findall(r"(?<!\$)\$\{([A-Z_]+):([-?][^}]*)\}", FILES[name])


def test_every_variable_is_in_the_example_and_defaults_agree():
    assert {name for file in FILES for name, _ in variables(file)} == EXAMPLE.keys()
    for name, otherwise in variables("docker-compose.yml"):
        assert otherwise == (f"-{EXAMPLE[name]}" if EXAMPLE[name] else "?run deploy/secrets.sh")
    for name, otherwise in variables("docker-compose.single.yml"):
        assert otherwise == f"-{EXAMPLE[name]}"


def test_what_the_services_are_told_are_settings():
    told = [*WHOLE["services"]["service"]["environment"], *WHOLE["services"]["worker"]["environment"]]

    assert {name.removeprefix("PAYOFF_").lower() for name in told if name.startswith("PAYOFF_")} <= {
        *Settings.model_fields
    }


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
        pytest.skip("promtool is not installed")
    for check in (["config", "--syntax-only", DEPLOY / "prometheus.yml"], ["rules", DEPLOY / "alerts.yml"]):
        found = subprocess.run(["promtool", "check", *check], capture_output=True, text=True, check=False)

        assert found.returncode == 0, found.stdout + found.stderr


def test_prometheus_asks_services_that_exist_at_ports_they_have():
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    asked = {job["job_name"] for job in config["scrape_configs"] if "dns_sd_configs" in job}

    assert asked <= WHOLE["services"].keys()
    assert all("watch" in WHOLE["services"][name]["networks"] for name in asked)


def test_boards_and_alerts_ask_for_metrics_that_there_are(service):
    board = json.loads((DEPLOY / "grafana" / "boards" / "payoff.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    alerts = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    asked += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    told = service.get("/metrics").text
    there = set(re.findall(r"^# TYPE (\S+)", told, re.MULTILINE))
    there |= {f"{name}_bucket" for name in there}

    names = {name for query in asked for name in re.findall(r"\b(?:payoff|process)_\w+", query)}
    assert names
    assert names <= there, names - there
