"""What the manifests promise, as far as it shows without a cluster."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
DOCUMENTS: list[dict[str, Any]] = [
    document
    for path in sorted(FOLDER.glob("*/*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
PODS = {
    document["metadata"]["name"] + "/" + document["kind"]: pod
    for document in DOCUMENTS
    if (
        pod := document.get("spec", {}).get("predictor")
        or document.get("spec", {}).get("template", {}).get("spec")
    )
}
SETTINGS = {f"PAYOFF_{name.upper()}" for name in Settings.model_fields}


def of_kind(kind: str) -> dict[str, Any]:
    return next(document for document in DOCUMENTS if document["kind"] == kind)


@pytest.mark.parametrize("name", PODS)
def test_pods_are_no_root_and_have_folders_to_write_to(name):
    pod = PODS[name]
    [container] = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    assert container["resources"]["limits"]["memory"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
        "/srv/payoff",
        "/tmp",
    }
    assert "command" not in container, "the entry point copies the compiled loops"


def test_every_setting_is_known():
    maps = of_kind("Kustomization")["configMapGenerator"]
    pairs = [pair for entry in maps for pair in entry["literals"]]
    pairs += (FOLDER / "base/secret.example.env").read_text().split()
    names = {pair.partition("=")[0] for pair in pairs}
    names |= {
        variable["name"]
        for pod in PODS.values()
        for variable in pod["containers"][0].get("env", [])
    }

    assert {name for name in names if name.startswith("PAYOFF_")} <= SETTINGS
    assert {name for name in names if not re.match("PAYOFF_|AWS_", name)} == set()


def test_probes_ask_paths_that_the_service_has(service):
    for pod in PODS.values():
        for name, probe in pod["containers"][0].items():
            if name.endswith("Probe"):
                assert service.get(probe["httpGet"]["path"]).status_code == 200


def test_the_autoscaler_and_the_service_find_the_pods():
    deployments = [d for d in DOCUMENTS if d["kind"] == "Deployment"]
    labels = [d["spec"]["template"]["metadata"]["labels"] for d in deployments]

    assert [d["spec"]["selector"]["matchLabels"] for d in deployments] == labels
    assert of_kind("Service")["spec"]["selector"] in labels
    names = {d["metadata"]["name"] for d in deployments}
    scaled = of_kind("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert scaled["name"] in names
