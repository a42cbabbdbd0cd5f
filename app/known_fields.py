"""Objects of which all fields are known, as those of requests."""

from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from payoff.errors import MAX_ERRORS, unknown

_MAX_SHOWN = 64  # characters of a name that an error repeats


class KnownFields(BaseModel):
    """An object that is refused for its unknown fields before all else: mostly they are misspelt.

    Only the first of them is compared with the known fields: there may be millions.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, document: Any) -> Any:
        known = cls.model_fields
        if not isinstance(document, dict) or document.keys() <= known.keys():
            return document
        names = [*islice((name for name in document if name not in known), MAX_ERRORS)]
        messages = [unknown("field", names[0], known)]
        messages += [f"unknown field {str(name)[:_MAX_SHOWN]!r}" for name in names[1:]]
        errors = [
            InitErrorDetails(
                type=PydanticCustomError(
                    "unknown_field", "{words}", {"words": message}
                ),
                loc=(name,),
                input=None,
            )
            for name, message in zip(names, messages, strict=True)
        ]
        raise ValidationError.from_exception_data(cls.__name__, errors)
