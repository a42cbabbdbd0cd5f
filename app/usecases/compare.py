"""Orders to compare learners and rules: checked here, and accepted as jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictBool, StrictInt, WithJsonSchema

from app.access.caller import Caller
from app.errors import Flaw, Invalid, pointer, reject
from app.jobs.job import Job
from app.learners import catalogue
from app.learners.catalogue import SCORE_CALIBRATOR
from app.usecases import jobs
from app.usecases.calibrate import drafted
from app.usecases.datasets import EXAMPLE_ID, find_named
from app.usecases.fields import PROBABILITIES, ClassNames, Text
from app.usecases.labelled_rows import class_codes
from app.usecases.matrices import MatrixFields, needed_matrix
from app.usecases.ports import Ports
from app.usecases.probabilities import as_probabilities
from app.usecases.specs import FOLDS, SEED, CompareSpec, LearnerSpec
from app.usecases.train import Learner
from app.usecases.train_job import built, placed

KIND = "compare"
_INCOMPARABLE = "the learners cannot be compared"
_FORMS = ("dataset", "learners"), ("probabilities", "classes", "labels")


class CompareRequest(MatrixFields):
    """What to compare, on what, and what is at stake."""

    dataset: Text | None = Field(default=None, examples=[EXAMPLE_ID], description="with `learners`")
    learners: Annotated[list[Learner], Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="or `probabilities`, of which the rules alone are compared"
    )
    probabilities: Annotated[Any, WithJsonSchema(PROBABILITIES)] = Field(
        default=None,
        description="in place of data set and learners: a row per instance, a column for each of `classes`",
    )
    classes: ClassNames | None = Field(default=None, description="with `probabilities`")
    labels: Annotated[list[StrictInt | Text] | None, Field(fail_fast=True)] = Field(
        default=None, description="with `probabilities`: the true class of each row"
    )
    normalize: StrictBool = Field(default=False, description="with `probabilities`: divide each row by its sum")
    folds: int = Field(
        default=FOLDS, ge=2, le=20, strict=True, description="each is evaluated by models fitted on the others"
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)


def submit(ports: Ports, asked: CompareRequest, *, key: str | None, caller: Caller) -> Job:
    """Accept an order to compare, checked as far as possible beforehand; the same `key` answers with the first job.

    Raises Invalid with the place of what cannot work, NotFound for an unknown data set.
    """
    _check_form(asked)
    if asked.dataset is None or asked.learners is None:
        return _submit_given(ports, asked, key=key, caller=caller)
    dataset = find_named(ports, asked.dataset, "/dataset", caller)
    if dataset.classes is None or len(dataset.labels) > 1:
        raise Invalid.at("/dataset", "rules are compared on one label that is a class; this data set has another form")
    resolved = _resolved(asked.learners)
    square = any(kind.needs_square(parameters) for kind, parameters in resolved)
    B, actions = needed_matrix(asked, dataset.classes, square=square)
    spec = CompareSpec(
        dataset=dataset.id,
        learners=_buildable(resolved, B, dataset.classes),
        benefits=B.tolist(),
        actions=actions,
        folds=asked.folds,
        seed=asked.seed,
    )
    return jobs.submit(ports, caller, KIND, spec, dataset=dataset.id, key=key)


def _check_form(asked: CompareRequest) -> None:
    """Invalid unless there are a data set and learners, or probabilities, classes and labels."""
    needed, others = _FORMS if asked.probabilities is None else _FORMS[::-1]
    reject(Flaw(pointer(name), f"{name!r} is required") for name in needed if getattr(asked, name) is None)
    either = "send 'dataset' and 'learners', or 'probabilities', 'classes' and 'labels', not both"
    reject(Flaw(pointer(name), either) for name in others if getattr(asked, name) is not None)
    if asked.normalize and asked.probabilities is None:
        raise Invalid.at("/normalize", "this goes with 'probabilities'")


def _submit_given(ports: Ports, asked: CompareRequest, *, key: str | None, caller: Caller) -> Job:
    """The same for probabilities and labels, which are kept as a data set, in place of learners."""
    classes, labels = asked.classes or [], asked.labels or []
    P = as_probabilities(asked.probabilities, classes, normalize=asked.normalize).P
    if len(labels) != len(P):
        raise Invalid.at("/labels", f"{len(labels)} labels for {len(P)} rows of probabilities")
    class_codes(labels, classes)
    draft = drafted(ports, P, labels, classes, caller.owner)
    B, actions = needed_matrix(asked, classes)
    parameters = {"calibration": "none", "input": "probabilities", "classes": list(classes)}
    spec = CompareSpec(
        dataset=draft.content,
        learners=[LearnerSpec(kind=SCORE_CALIBRATOR.name, parameters=parameters)],
        benefits=B.tolist(),
        actions=actions,
        folds=asked.folds,
        seed=asked.seed,
    )
    ports.datasets.keep(draft)
    return jobs.submit(ports, caller, KIND, spec, dataset=draft.dataset.id, key=key)


def names(learners: Sequence[LearnerSpec]) -> list[str]:
    """What each learner is called in the table: its kind, and the parameters that are not the kind's defaults."""
    return [_name(learner.kind, learner.parameters) for learner in learners]


_Resolved = tuple[catalogue.Kind, dict[str, Any]]


def _resolved(sent: Sequence[Mapping[str, Any]]) -> list[_Resolved]:
    learners: list[_Resolved] = []
    reject(_resolve(sent, learners), _INCOMPARABLE)
    return learners


def _resolve(sent: Sequence[Mapping[str, Any]], learners: list[_Resolved]) -> Iterator[Flaw]:
    """Append the learners to `learners`, and yield what is wrong with them."""
    for i, one in enumerate(sent):
        try:
            kind, parameters = catalogue.resolve(one)
        except Invalid as error:
            yield from error.under(pointer("learners", i)).flaws
            continue
        if kind.labels == "several":
            yield Flaw(pointer("learners", i, "kind"), f"{kind.name} predicts several labels; rules decide about one")
        if kind.regresses(parameters):
            yield Flaw(pointer("learners", i, "task"), "regression predicts numbers; rules decide about classes")
        learners.append((kind, parameters))


def _buildable(resolved: Sequence[_Resolved], B: np.ndarray, classes: Sequence[int | str]) -> list[LearnerSpec]:
    """The learners as the job will build them, each once: labels are written as the data set's classes are."""
    learners: list[LearnerSpec] = []
    flaws: list[Flaw] = []
    for i, (kind, parameters) in enumerate(resolved):
        try:
            learner = LearnerSpec(kind=kind.name, parameters=built(kind, parameters, B, classes))
        except Invalid as error:
            flaws.extend(placed(error, pointer("learners", i)).flaws)
            continue
        if learner in learners:
            flaws.append(Flaw(pointer("learners", i), "the same learner with the same parameters is there already"))
        learners.append(learner)
    reject(flaws, _INCOMPARABLE)
    return learners


def _name(kind: str, parameters: Mapping[str, Any]) -> str:
    if kind == SCORE_CALIBRATOR.name:
        return "probabilities"
    _, defaults = catalogue.resolve({"kind": kind})
    changed = [f"{name}={_worded(value)}" for name, value in parameters.items() if value != defaults[name]]
    return f"{kind}({', '.join(changed)})" if changed else kind


def _worded(value: Any) -> str:
    if isinstance(value, Mapping):
        return _name(value["kind"], {name: part for name, part in value.items() if name != "kind"})
    return value if isinstance(value, str) else json.dumps(value)
