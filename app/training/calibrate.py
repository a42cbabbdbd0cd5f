"""Requests to calibrate the scores of another system: checked here, and accepted as jobs, which
`fitting.run` runs.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictInt,
    Tag,
    TypeAdapter,
    WithJsonSchema,
)

from app.access.caller import Caller
from app.jobs.job import Job
from app.requests.fields import PROBABILITIES, ClassNames, Name, Text, WireModel
from app.requests.labelled_rows import (
    RowWeights,
    as_probabilities,
    check_class_names,
    class_codes,
)
from app.requests.specifications import HOLDOUT, LearnerSpec, TrainSpec
from app.stores import Stores
from app.tables.store import Draft
from app.training import jobs
from payoff.decisions.metrics import rank_area
from payoff.errors import Flaw, Invalid, pointer, reject
from payoff.learners.score_calibrator import ScoreCalibrator

KIND = "calibrate"
SCORE = "score"  # the feature of a model whose instances are one score
_CLEAR = 2  # standard errors
_LARGEST = 1e100  # of a score's magnitude: squares, and sums of them, stay finite

Classes = Sequence[int | str]


def _has_lists(scores: Any) -> bool:
    """Whether the scores begin with a list, so that there is a list for each row."""
    return isinstance(scores, list) and len(scores) > 0 and isinstance(scores[0], list)


_Score = Annotated[float, Field(strict=True, ge=-_LARGEST, le=_LARGEST)]
_Row = Annotated[list[_Score], Field(fail_fast=True)]
_Scores = Annotated[
    Annotated[_Row, Tag("one")]
    | Annotated[list[_Row], Field(fail_fast=True), Tag("each")],
    Discriminator(lambda scores: "each" if _has_lists(scores) else "one"),
    WithJsonSchema(
        TypeAdapter(list[_Score | list[_Score]]).json_schema()  # one list: see `Matrix`
    ),
]


def _with_integers(labels: Any) -> Any:
    """A list of labels whose booleans are 0 and 1, as in a boolean column of labels."""
    if not isinstance(labels, list):
        return labels
    return [int(label) if isinstance(label, bool) else label for label in labels]


_BITS = BeforeValidator(_with_integers)


class CalibrateRequest(WireModel):
    """Scores, or probabilities, with the true classes of their rows."""

    model: Name = Field(description="what to publish", examples=["assistant"])
    scores: _Scores | None = Field(
        default=None,
        description="log-odds, ratings or other numbers: of two classes one for each row,"
        " the greater the more probable the second class;"
        " or a row with a number for each of `classes`",
    )
    probabilities: Annotated[list[Any], WithJsonSchema(PROBABILITIES)] | None = Field(
        default=None,
        description="in place of scores: a row per instance, a column for each of `classes`",
    )
    classes: Annotated[ClassNames, Field(min_length=2), _BITS] = Field(
        description="false is 0, true is 1"
    )
    labels: Annotated[list[StrictInt | Text], Field(fail_fast=True), _BITS] = Field(
        description="the true class of each row"
    )
    weights: RowWeights = None
    method: Literal["auto", "sigmoid", "isotonic"] = Field(
        default="auto",
        description="auto chooses by the log loss on rows that were left out",
    )
    holdout: float = Field(
        default=HOLDOUT,
        ge=0,
        le=0.9,
        strict=True,
        description="part held out to evaluate; 0: none",
    )


def submit(
    stores: Stores, request: CalibrateRequest, *, key: str | None, caller: Caller
) -> Job:
    """Accept a request, as `train.submit` does; the rows and labels are kept as a data set.

    Raises Invalid below /scores, /probabilities, /classes and /labels.
    """
    caller.need_model(request.model)
    if (request.scores is None) == (request.probabilities is None):
        place = "/scores" if request.scores is None else "/probabilities"
        raise Invalid.at(place, "send either 'scores' or 'probabilities'")
    classes = request.classes
    labels = request.labels
    check_class_names(classes)
    if request.scores is None:
        name = "probabilities"
        X = as_probabilities(request.probabilities or [], classes)
    else:
        name = "scores"
        X = _as_scores(request.scores, len(classes))
    if not len(X):
        raise Invalid.at(pointer(name), "at least one row is required")
    _check_varied(X, class_codes(labels, classes, len(X), name), classes, name)
    draft = drafted(stores, X, labels, classes, request.weights, caller.owner)
    parameters = {
        "calibration": request.method,
        "input": name,
        "classes": list(classes),
    }
    spec = TrainSpec(
        model=request.model,
        learner=LearnerSpec(kind=ScoreCalibrator.name, parameters=parameters),
        dataset=draft.content,
        holdout=request.holdout,
    )
    stores.datasets.keep(
        draft
    )  # after all checks: a refused request leaves nothing behind
    return jobs.submit(
        stores, caller, KIND, spec, model=spec.model, dataset=draft.dataset.id, key=key
    )


def drafted(
    stores: Stores,
    X: np.ndarray,
    labels: Sequence[int | str],
    classes: Classes,
    weights: Sequence[float] | None,
    owner: str,
) -> Draft:
    """Rows (n, m) and their labels as a data set to keep; Invalid below /classes and /labels."""
    names = [SCORE] if X.shape[1] == 1 else [str(name) for name in classes]
    try:
        draft = stores.datasets.draft_inline(
            names, X.tolist(), labels, weights=weights, owner=owner
        )
    except Invalid as error:
        flaws = [
            Flaw(flaw.loc.replace("/features", "/classes", 1), flaw.msg)
            for flaw in error.flaws
        ]
        raise Invalid(error.detail, flaws) from error
    seen = draft.dataset.classes or ()
    reject(
        Flaw(
            pointer("classes", k),
            f"no label is {name!r}; each class needs rows, or leave it out",
        )
        for k, name in enumerate(classes)
        if name not in seen
    )
    return draft


def _as_scores(scores: list[float] | list[list[float]], n_classes: int) -> np.ndarray:
    """Numbers, one for each row of two classes, or rows with a number for each class, as (n, 1) or
    (n, K).
    """
    single = not (scores and isinstance(scores[0], list))
    rows: list[Any] = [[score] for score in scores] if single else scores
    width = 1 if single and n_classes == 2 else n_classes
    reject(
        Flaw(
            pointer("scores", i),
            f"a row has {len(row)} scores, and needs {width} for {n_classes} classes",
        )
        for i, row in enumerate(rows)
        if len(row) != width
    )
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _check_varied(
    X: np.ndarray, codes: np.ndarray, classes: Classes, name: str
) -> None:
    """Invalid for scores that are all equal, or that clearly rank the second class lower."""
    if (X[0] == X).all():
        raise Invalid.at(
            pointer(name),
            f"the {name} of all rows are the same; they cannot tell the classes apart",
        )
    if X.shape[1] > 1 or len(np.unique(codes)) < 2:
        return
    area, error = rank_area(X[:, 0], codes == 1)
    if area < 0.5 - _CLEAR * error:
        pairs = (
            f"a row of {classes[1]!r} has the greater score in only {area:.1%} of its pairs"
            f" with {classes[0]!r}"
        )
        raise Invalid.at(
            "/scores",
            f"a greater score must mean the second class, but {pairs}; reverse 'classes'",
        )
