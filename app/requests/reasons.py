"""Reasons against an action: the fields of a request for them, and their texts."""

from typing import Annotated, Literal

import orjson
from pydantic import Field, RootModel, StrictInt

from app.access.caller import Caller
from app.errors import Conflict
from app.registry.saved_documents import REASONS, Saved
from app.requests.fields import Names, Text, WireModel, limit_entries
from app.requests.saved_matrices import save_document
from app.stores import Stores
from payoff.errors import pointer, reject, unknown_at

MOST_REASONS = 20
_MAX_FEATURES = 10_000  # of a request

Direction = Literal["low", "high", "missing", "any"]


class ReasonTexts(
    RootModel[
        Annotated[
            dict[
                Text,
                Annotated[
                    dict[
                        Direction,
                        Annotated[
                            str, Field(min_length=1, max_length=500, pattern=r"\S")
                        ],
                    ],
                    Field(min_length=1),
                ],
            ],
            limit_entries(_MAX_FEATURES, "features"),
            Field(min_length=1),
        ]
    ]
):
    """Texts by feature and direction; `any` is for the directions that have none."""


class ReasonsFields(WireModel):
    """Which features count most against an action."""

    reasons: int = Field(
        ge=1, le=MOST_REASONS, strict=True, description="how many at most", examples=[4]
    )
    against: StrictInt | Text = Field(description="the action", examples=["approve"])
    exclude: Annotated[Names, limit_entries(_MAX_FEATURES, "features")] = Field(
        default=[], description="features that are no reasons", examples=[["age"]]
    )


def save(stores: Stores, model: str, texts: ReasonTexts, *, by: Caller) -> Saved:
    """Save the texts as a new version, or the newest one where it is equal.

    NotFound for an unknown model, Conflict for one without versions or where there is no room,
    Invalid at each name that is no feature of its latest version.
    """
    versions = stores.registry.index.model(model).versions
    if not versions:
        raise Conflict(f"{model!r} has no versions, and so no features for reasons")
    card = stores.registry.index.card(model, versions[0].version)
    names = [feature.name for feature in card.features]
    reject(
        unknown_at(pointer(name), "feature", name, names)
        for name in texts.root
        if name not in names
    )
    content = orjson.dumps(texts.root)
    return save_document(stores, (model, REASONS, REASONS), content, by=by)
