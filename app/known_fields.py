"""Objects of which all fields are known, as those of requests."""

from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from payoff.errors import MAX_ERRORS, unknown

_MOST_SHOWN = 64  # characters of a name


class KnownFields(BaseModel):
    """An object that is refused for its unknown fields alone, which are misspelt ones mostly.

    Only the first is compared with the known ones: there may be millions.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, document: Any) -> Any:
        known = cls.model_fields
        if not isinstance(document, dict) or document.keys() <= known.keys():
            return document
        strange = [*islice((name for name in document if name not in known), MAX_ERRORS)]
        messages = [unknown("field", strange[0], known)]
        messages += [f"unknown field {str(name)[:_MOST_SHOWN]!r}" for name in strange[1:]]
        errors = [
            InitErrorDetails(
                type=PydanticCustomError("unknown_field", "{words}", {"words": message}),
                loc=(name,),
                input=None,
            )
            for name, message in zip(strange, messages, strict=True)
        ]
        raise ValidationError.from_exception_data(cls.__name__, errors)
