"""Guarantees for an action, certified on rows with a truth, and saved for a version of a model."""

from typing import Any

import numpy as np
import orjson
from pydantic import BaseModel, Field

from app.access.caller import Caller
from app.errors import Conflict
from app.registry.loaded import Loaded
from app.registry.saved_documents import Kind, Saved
from app.requests.fields import Text, WireModel
from app.requests.guarantees import Guarantee, GuaranteeFields
from app.requests.matrices import NamedMatrixFields
from app.requests.saved_matrices import content_of, save_document
from app.stores import Stores
from payoff.decisions.benefit import decide
from payoff.errors import Invalid
from payoff.evidence.guarantees import certify


class CertifiedRule(BaseModel):
    """What is certified on these rows, which the model did not see; null where nothing is."""

    action: str
    otherwise: str
    cut: float | None = Field(
        description="the action is taken where the matrix takes it, and the score is at least"
        " this: one minus the probability of the wrong classes, or minus the expected loss"
    )
    cases: int = Field(description="rows for which it is taken then")
    share: float = Field(description="of all rows")
    unrestricted_cases: int = Field(description="rows for which the matrix takes it")
    risk: float | None = Field(
        description="share of wrong cases, or mean loss, of `cases`"
    )
    bound: float | None = Field(
        description="upper end of the one-sided interval for this cut alone, at the confidence;"
        " what is guaranteed, of the best of all cuts, is the limit"
    )
    benefit: float | None = Field(description="mean of all rows, with the guarantee")
    unrestricted_benefit: float = Field(description="the same without it")
    reason: str | None = Field(description="why nothing is certified")


class OnDataset(WireModel):
    """A data set in place of the hold-out."""

    dataset: Text | None = Field(
        default=None,
        description="whose rows are taken in place of the hold-out; the model must not have learned"
        " from any of them",
        examples=[None],
    )


class GuaranteeRequest(NamedMatrixFields, OnDataset):
    """A matrix, and the guarantee that is to be certified under it."""

    guarantee: GuaranteeFields


def check_evaluated(model: Loaded) -> None:
    """Invalid at /guarantee where the model that decides is not the one that was evaluated."""
    if model.card.data.refit:
        raise Invalid.at(
            "/guarantee",
            "a guarantee is about the model that was evaluated, and version"
            f" {model.version} of {model.name!r} was fitted again on all rows after its"
            f' evaluation by {model.evaluation}; train it with "refit": false, or name a'
            " 'dataset' with new rows",
        )


def certified(
    P: np.ndarray,
    y: np.ndarray,
    B: np.ndarray,
    guarantee: Guarantee,
    actions: list[str],
) -> tuple[Guarantee, dict[str, Any]]:
    """The guarantee with its cut, infinite where nothing is certified, and a `CertifiedRule`.

    Of rows with posteriors P (n, K), classes y (n,) and benefits (K, A) or (n, K, A).
    """
    n = np.arange(len(y))
    payoffs = B[y] if B.ndim == 2 else B[n, y]
    choice = decide(P, B).choice
    action = actions.index(guarantee.action)
    rows = np.flatnonzero(choice == action)
    gains = payoffs[rows, action] - payoffs[rows, actions.index(guarantee.otherwise)]
    risks = np.array(guarantee.risks)[y[rows]]
    limit = guarantee.limit
    certificate = certify(guarantee.scores(P[rows]), risks, gains, limit)
    document: dict[str, Any] = {
        "action": guarantee.action,
        "otherwise": guarantee.otherwise,
        "cut": None,
        "cases": 0,
        "share": 0.0,
        "unrestricted_cases": len(rows),
        "risk": None,
        "bound": None,
        "benefit": None,
        "unrestricted_benefit": float(payoffs[n, choice].mean()),
        "reason": None,
    }
    if certificate is None:
        min_cases = limit.min_cases()
        reason = f"no cut shows a risk of at most {limit.at_most:g} at this confidence"
        if len(rows) < min_cases:
            reason = (
                f"the matrix takes {guarantee.action!r} in {len(rows)} rows, and {min_cases}"
                " without any risk are the fewest that show it"
            )
        return guarantee, document | {"reason": reason}
    guarantee = guarantee._replace(cut=certificate.cut)
    choice = guarantee.restricted(choice, P, actions)
    return guarantee, document | {
        "cut": certificate.cut,
        "cases": certificate.cases,
        "share": certificate.cases / len(y),
        "risk": certificate.risk,
        "bound": certificate.bound,
        "benefit": float(payoffs[n, choice].mean()),
    }


def save(
    stores: Stores,
    model: Loaded,
    name: str,
    request: GuaranteeRequest,
    result: tuple[Guarantee, dict[str, Any]],
    rows_in_words: str | None,
    *,
    by: Caller,
) -> Saved:
    """Save what is certified as a new version, or the newest one where it is equal.

    Conflict where nothing is certified.
    """
    guarantee, document = result
    if document["reason"] is not None:
        raise Conflict(f"nothing is certified: {document['reason']}")
    benefits, actions = orjson.loads(content_of(request, model.classes))
    content = {
        "of": model.version,
        "benefits": benefits,
        "actions": actions,
        "guarantee": request.guarantee.model_dump(),
        "certified": guarantee._asdict(),
        "result": document | {"rows_in_words": rows_in_words},
    }
    place: tuple[str, Kind, str] = (model.name, "guarantee", name)
    return save_document(stores, place, orjson.dumps(content), by=by)
