"""Published models: files that are complete in themselves, and an index over them."""

from app.registry.card import Card
from app.registry.files import pack
from app.registry.loaded import Holdout, Loaded
from app.registry.registry import Registry

__all__ = ["Card", "Holdout", "Loaded", "Registry", "pack"]
