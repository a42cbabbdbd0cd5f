"""Models at rest: a folder for each version, sealed by its card, on a disk or in an object store.

WHO MUST BE TRUSTED. `model.joblib` is a pickle, and loading a pickle runs any code that it names.
So any process that can write into the registry's folder can run code as this service. The digests
in the card guard against damage and mix-ups.
"""

import hashlib
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from typing import Any

import joblib
import numpy as np

from app.errors import Conflict, Damaged, NotFound
from app.registry.card import COLUMNS, NAME, Card, read_card
from app.registry.loaded import Holdout, Loaded, Segment
from app.registry.snapshot import NUMBER, Key, folder_of
from app.storage import FileCache, Storage
from payoff.errors import PayoffError

CARD = "card.json"
ESTIMATOR = "model.joblib"
HOLDOUT = "holdout.npz"
_GROUPS = "groups"
_WEIGHTS = "weights"
_COLUMN = "column "  # before the name of a column, in the file of columns
_SEGMENT = "segment "  # before the name of a column by which rows can be divided
_WORDS = "words "  # before its name, of its words
# The version is read without importing scikit-learn: that takes 60 MB and 0.7 s, which linear
# models do not need.
SKLEARN = metadata.version("scikit-learn")
_NUMBER = re.compile(NUMBER)

_log = logging.getLogger(__name__)


def pack(estimator: Any, holdout: Holdout | None = None) -> dict[str, bytes]:
    """A fitted estimator, and its hold-out where there is one, as the files of a version."""
    artifact = io.BytesIO()
    joblib.dump(estimator, artifact)
    files = {ESTIMATOR: artifact.getvalue()}
    if holdout is not None:
        scores = np.asarray(holdout.scores, dtype=np.float64)
        arrays = {"scores": scores, "y": np.asarray(holdout.y)}
        if holdout.groups is not None:
            arrays[_GROUPS] = holdout.groups.astype(np.uint32)
        if holdout.weights is not None and np.ptp(holdout.weights) > 0:
            arrays[_WEIGHTS] = holdout.weights
        files[HOLDOUT] = _zipped(arrays)
        columns = {_COLUMN + name: values for name, values in holdout.columns().items()}
        for name, (codes, words) in holdout.segments().items():
            columns |= {_SEGMENT + name: codes, _WORDS + name: np.array(words)}
        if columns:
            files[COLUMNS] = _zipped(columns)
    return files


def _zipped(arrays: Mapping[str, Any]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


class Files:
    """Reads and writes version folders; keeps what it read in `kept`, as long as that has room."""

    def __init__(
        self,
        url: str,
        *,
        allow_version_skew: bool = False,
        retry_seconds: float = 0.0,
        kept: FileCache,
    ) -> None:
        self.storage = Storage(
            url, CARD, name="PAYOFF_MODELS", retry_seconds=retry_seconds
        )
        self._kept = kept
        self._allow_version_skew = allow_version_skew

    def stage(self, card: Card, files: Mapping[str, bytes], at: float) -> Card:
        """Write a version's folder, complete or not at all; returns its card with sizes, digests
        and the time.

        Conflict where the folder exists.
        """
        sealed = card.model_copy(
            update={
                "sizes": {name: len(content) for name, content in files.items()},
                "sha256": {name: _sha256(content) for name, content in files.items()},
                "created_at": datetime.fromtimestamp(at, UTC),
            }
        )
        content = sealed.to_bytes()
        self.storage.publish(card.folder, {**files, CARD: content})
        return read_card(content)

    def folders(self) -> Iterator[tuple[str, list[int]]]:
        """Each model's name with the numbers of its folders, sealed or not."""
        for name in filter(re.compile(NAME).fullmatch, self.storage.folders()):
            yield name, self.numbers(name)

    def numbers(self, name: str) -> list[int]:
        """The numbers of a model's folders, sealed or not."""
        return [
            int(number)
            for number in self.storage.folders(name)
            if _NUMBER.fullmatch(number)
        ]

    def card(self, key: Key) -> Card:
        """A folder's card, whatever job wrote it. NotFound; Damaged if it is another folder's."""
        return _parse(key, self.storage.read(folder_of(key), CARD))

    def cards(self, keys: Sequence[Key]) -> Iterator[tuple[Card, bytes]]:
        """Cards of many folders and their bytes; those that are absent or damaged are logged and
        left out.
        """
        contents = self.storage.read_each(map(folder_of, keys), CARD)
        for key in keys:
            try:
                content = contents[folder_of(key)]
                yield _parse(key, content), content
            except KeyError:
                _log.warning("left out: there is no %s/%s", folder_of(key), CARD)
            except PayoffError as error:
                _log.warning("left out: %s", error.detail)

    def loadable_card(self, key: Key, digest: str) -> Card:
        """A version's card. Damaged where its SHA-256 is not `digest`, Conflict where another
        scikit-learn made the version, unless that is allowed.
        """
        path = f"{folder_of(key)}/{CARD}"
        content = self._verified(path, digest, "is not the card that was published")
        card = _parse(key, content)
        made_with = card.packages.get("scikit-learn")
        if made_with != SKLEARN and not self._allow_version_skew:
            raise Conflict(
                f"{card.folder} was made with scikit-learn {made_with}, and {SKLEARN} is installed:"
                " train it again, or set PAYOFF_ALLOW_VERSION_SKEW to load it at your own risk"
            )
        return card

    def read(self, card: Card, name: str) -> bytes:
        """A file of a version; Damaged where it is not the one that the card was written for."""
        problem = "does not have the digest in its card: it was changed or damaged"
        return self._verified(f"{card.folder}/{name}", card.sha256[name], problem)

    def load(self, key: Key, digest: str) -> Loaded:
        """A version in memory: verified before anything is unpickled."""
        card = self.loadable_card(key, digest)
        files = {name: self.read(card, name) for name in card.sha256 if name != COLUMNS}
        holdout = None
        if HOLDOUT in files:
            with np.load(io.BytesIO(files[HOLDOUT]), allow_pickle=False) as table:
                holdout = Holdout(
                    table["scores"],
                    table["y"],
                    partial(self._columns, card),
                    table[_GROUPS] if _GROUPS in table.files else None,
                    table[_WEIGHTS] if _WEIGHTS in table.files else None,
                    partial(self._segments, card),
                )
        return Loaded(
            card, card.schema_of_features(), _unpickle(card, files[ESTIMATOR]), holdout
        )

    def _columns(self, card: Card, kind: str = _COLUMN) -> dict[str, np.ndarray]:
        """The columns of the hold-out of a kind, by name; raises the errors of `read`."""
        if COLUMNS not in card.sha256:
            return {}
        with np.load(io.BytesIO(self.read(card, COLUMNS)), allow_pickle=False) as table:
            names = [name for name in table.files if name.startswith(kind)]
            return {name.removeprefix(kind): table[name] for name in names}

    def _segments(self, card: Card) -> dict[str, Segment]:
        words = self._columns(card, _WORDS)
        codes = self._columns(card, _SEGMENT)
        return {name: (codes[name], words[name].tolist()) for name in words}

    def _verified(self, path: str, digest: str, problem: str) -> bytes:
        """The file with this SHA-256, from the cache or the store; Damaged, with the `problem`,
        where the file in the store is another one.
        """
        kept = self._kept.get(digest)
        if kept is not None and _sha256(kept) == digest:
            return kept
        try:
            content = self.storage.read(path)
        except NotFound as absent:
            raise Damaged(f"{path} is missing") from absent
        if _sha256(content) != digest:
            raise Damaged(f"{path} {problem}")
        self._kept.keep(digest, content)
        return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unpickle(card: Card, artifact: bytes) -> Any:
    if card.packages.get("scikit-learn") != SKLEARN:
        # The operator allowed it. The filter is one of the process, as catch_warnings is not safe
        # among threads.
        warnings.filterwarnings("ignore", message="Trying to unpickle estimator")
    try:
        return joblib.load(io.BytesIO(artifact))
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise Damaged(
            f"{card.folder}/{ESTIMATOR} cannot be loaded by this version of the service: {cause}"
        ) from error


def _parse(key: Key, content: bytes) -> Card:
    try:
        card = read_card(content)
    except PayoffError as error:
        raise type(error)(f"{folder_of(key)}/{CARD}: {error.detail}") from error
    if card.key != key:
        raise Damaged(f"the card in {folder_of(key)} is that of {card.folder}")
    return card
