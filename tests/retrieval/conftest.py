"""Let no clock decide about an example: the first of them may compile."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
