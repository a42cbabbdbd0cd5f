"""A model's card: the description of a version, and the digests of the files beside it.

Format rule: an optional field with a default may be added under the same number, since readers pass
over fields they do not know. Any other change raises FORMAT. A card with another number is refused.
"""

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictInt,
    StrictStr,
)
from pydantic import ValidationError as Unreadable

from app.errors import Damaged
from app.tables.features import Feature, Schema

FORMAT: Final = 2
_REWARDS = "rewards"  # the kind of learner
_PACKAGES = ("payoff", "numpy", "scikit-learn", "joblib")
COLUMNS = "columns.npz"  # of the hold-out's rows, read only where a cell of a matrix names one
NAME = r"[a-z0-9][a-z0-9_-]{0,63}"

Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class LearnerCard(_Part):
    """What was fitted, with every parameter, defaults too."""

    kind: str
    parameters: dict[str, Any] = {}


class FeatureCard(_Part):
    """A column of the training table; `categories` are its values, in the order of their codes."""

    name: str
    type: Literal["numeric", "categorical"]
    categories: list[str] = []
    form: str = Field(
        default="",
        description="how text stands for the numbers of a numeric one, where it does",
    )
    low: FiniteFloat | None = Field(
        default=None, description="the least value of a numeric one in training"
    )
    high: FiniteFloat | None = Field(default=None, description="the greatest")
    missing: int | None = Field(
        default=None, ge=0, description="rows in training that have no value of it"
    )


class EvaluationCard(_Part):
    """Which rows the metrics, thresholds and reports of a version come from."""

    method: Literal["hold-out", "cross-validation"]
    folds: int | None = Field(
        default=None,
        description="of the cross-validation; null: one fit without the hold-out",
    )
    rows: int = Field(
        ge=1, description="rows that were predicted by a model that did not see them"
    )
    by: Literal["time", "group"] | None = Field(
        default=None, description="null: a random split"
    )
    column: str | None = Field(default=None, description="of the times or groups")
    groups: int | None = Field(
        default=None, description="of these rows; null unless split by group"
    )
    in_words: str | None = Field(default=None, description="which rows these are")


class DataCard(_Part):
    """What it was trained on."""

    dataset: str | None = Field(
        default=None, description="also where its rows came with the training request"
    )
    digest: str
    rows: int = Field(ge=0, description="rows that the published model was fitted on")
    holdout_rows: int = Field(
        default=0, ge=0, description="rows held out from the first fit"
    )
    refit: bool = Field(
        default=False,
        description="whether the published model was fitted again, on all rows",
    )
    evaluation: EvaluationCard | None = Field(
        default=None, description="null without a hold-out"
    )


def installed_packages() -> dict[str, str]:
    """The versions that decide whether a pickle made here can be read elsewhere."""
    return {
        "python": platform.python_version(),
        **{name: version_of(name) for name in _PACKAGES},
    }


class Card(_Part):
    """One published version of a model. `sizes` (bytes) and `sha256` are filled when its files are
    staged.
    """

    format: Literal[2] = FORMAT
    name: Name
    version: int = Field(ge=1)
    job: str | None = Field(default=None, description="the training job that made it")
    learner: LearnerCard
    features: list[FeatureCard] = Field(min_length=1)
    ignored: list[str] = Field(
        default=[], description="columns that instances may have, and that are not used"
    )
    values: dict[str, str] = Field(
        default={},
        description="those of them that cells of matrices may name, with forms",
    )
    labels: list[str] = Field(description="the target column; several when multi-label")
    classes: list[StrictInt | StrictStr] | None = Field(
        description="in the order of probabilities; null: regression"
    )
    class_priors: dict[str, FiniteFloat] = Field(
        default={}, description="shares of the classes in training, by name"
    )
    metrics: dict[str, Any] = Field(
        default={}, description="on the rows of `data.evaluation`"
    )
    data: DataCard
    benefits: list[list[FiniteFloat]] | None = None
    case_benefits: list[list[Any]] | None = Field(
        default=None,
        description="where cells depend on the case; `benefits` then are their means in training",
    )
    actions: list[str] | None = Field(
        default=None, description="names of the columns of `benefits`, where given"
    )
    feature_costs: list[dict[str, Any]] | None = None
    unit: str | None = Field(default=None, description="of all amounts")
    seed: int = 0
    warnings: list[str] = Field(
        default=[], description="what limits its answers, which repeat these sentences"
    )
    fitted: dict[str, Any] = Field(
        default={}, description="what the fit found: calibration used, convergence"
    )
    sizes: dict[str, int] = {}
    packages: dict[str, str] = Field(default_factory=installed_packages)
    sha256: dict[str, Digest] = {}
    created_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    fit_seconds: FiniteFloat = Field(default=0.0, ge=0)

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.version

    @property
    def rewarded(self) -> bool:
        """Whether the model learned from rewards: `classes` are the actions that it chooses."""
        return self.learner.kind == _REWARDS

    @property
    def has_classes(self) -> bool:
        """Whether it says which one of several classes is true."""
        return self.classes not in (None, self.labels) and not self.rewarded

    @property
    def loaded_bytes(self) -> int:
        """The size of the files that are read to answer."""
        return sum(size for name, size in self.sizes.items() if name != COLUMNS)

    @property
    def folder(self) -> str:
        return f"{self.name}/{self.version}"

    def schema_of_features(self) -> Schema:
        """The schema that turns instances into this model's matrix."""
        parts = [
            Feature(part.name, part.type, tuple(part.categories), part.form)
            for part in self.features
        ]
        return Schema(parts, self.ignored, self.values)

    def priors(self) -> np.ndarray:
        """Class priors in training, float64 (K,) in the order of `classes`, or of none of them."""
        names = [str(name) for name in self.classes or []] if self.class_priors else []
        return np.array([self.class_priors[name] for name in names], dtype=np.float64)

    def to_bytes(self) -> bytes:
        """Canonical JSON: equal cards give equal bytes. A metric that is NaN or infinite, so
        undefined, is null.
        """
        document = self.model_dump(mode="json")
        text = json.dumps(
            document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False
        )
        return text.encode() + b"\n"


def read_card(content: bytes) -> Card:
    """A card from its bytes; Damaged where they are none of this format."""
    try:
        return Card.model_validate_json(content)
    except Unreadable as error:
        flaws = "; ".join(
            f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}"
            for flaw in error.errors()
        )
        raise Damaged(
            f"this card cannot be read as format {FORMAT}: {flaws}"
        ) from error
