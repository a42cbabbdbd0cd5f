"""A model made elsewhere, imported by the form of the console, as a new user would."""

from __future__ import annotations

import numpy as np
import pytest
import skl2onnx
from sklearn.linear_model import LogisticRegression

from tests.conftest import two_class_rows
from tests.console.conftest import ADMIN_KEY
from tests.console.tab import Tab

pytestmark = pytest.mark.thorough


def test_a_model_is_imported(browser, site, tmp_path):
    data = two_class_rows()
    numbers = np.array([row[:2] for row in data["rows"]])
    model = tmp_path / "model.onnx"
    fitted = LogisticRegression().fit(numbers, data["labels"])
    model.write_bytes(skl2onnx.to_onnx(fitted, numbers[:1].astype(np.float32)).SerializeToString())
    lines = [f"{age},{pulse},{label}" for (age, pulse), label in zip(numbers, data["labels"], strict=True)]
    form = {"label": "label", "name": "numbers"}
    site.client.post("/datasets", data=form, files={"file": "\n".join(["age,pulse,label", *lines])}).raise_for_status()

    tab = Tab(browser, site, ADMIN_KEY)
    page = tab.open("models")
    page.click("summary:text-is('Import a model')")
    page.get_by_label("Data set").select_option(label="numbers")
    page.get_by_label("Name of the model").fill("imported")
    page.set_input_files("input[type=file]", str(model))
    page.click("button:text-is('Import')")
    page.wait_for_selector("h2:text-is('Published: imported:1')", timeout=60_000)
    assert site.client.get("/models/imported:1").json()["classes"] == ["healthy", "ill"]
    site.client.delete("/models/imported")
    tab.close()
