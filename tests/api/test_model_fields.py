"""A key for some models is refused wherever a body names another, in the same words whether that is there or not."""

import pytest

from app.access.caller import Caller
from tests.api.callers import ask, called_by
from tests.api.operations import operations
from tests.registry.making import publish

NAMES = {"model", "models", "shadow"}  # of fields that hold references to models
LISTS = {"models", "shadow"}
NAMED = ("/train", "/calibrate", "/datasets/from-outcomes")  # these take names alone


def named():
    """The operations whose JSON body has such a field, and the field."""
    return [
        (each, field)
        for each in operations()
        if each.takes_json
        for field in sorted(each.fields & NAMES)
    ]


@pytest.fixture(autouse=True, scope="module")
def published(wired):
    for name in ("triage", "secret"):
        publish(wired.stores.registry, name)


@pytest.mark.parametrize(
    ("operation", "field"),
    [pytest.param(*each, id=f"{each[0].path}-{each[1]}") for each in named()],
)
def test_another_model_is_refused_whether_it_is_there_or_not(app, operation, field):
    caller = Caller("narrow", models=("triage*", "ward*", "assistant*"))
    words = set()
    for reference in ("secret", "secret:1", "secret:9", "nothing", "nothing:1"):
        if (field, ":" in reference) == ("model", True) and operation.path in NAMED:
            continue
        body = operation.body | {field: [reference] if field in LISTS else reference}
        if operation.path == "/retrieve":
            body = {
                "setting": "binary",
                "loss": {"name": "am"},
                "model": reference,
                "instances": [[1.0]],
            }
        answer = ask(called_by(app, caller), operation.method, operation.url, json=body)
        assert answer.status_code == 403, (reference, answer.text)
        words.add(answer.json()["detail"])
    assert len(words) == 1
