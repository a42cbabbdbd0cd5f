"""Models at rest: a folder for each version, sealed by its card, under any fsspec URL.

WHO MUST BE TRUSTED. `model.joblib` is a pickle, and loading a pickle runs whatever code it names. So whoever can write
into the registry's folder can run code as this service. Without a signing key the digests in the card only guard
against damage: a writer of the folder can write a card to match. With a signing key, everyone who knows the
key is trusted, and no one else: a card whose HMAC-SHA256 is absent or wrong is refused before anything is unpickled,
and since the card holds the digests of the other files, the one signature covers them all. The key guards against
foreign code, not against old models: aliases and the list of versions are not signed.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import metadata
from typing import Any, BinaryIO, cast

import joblib
import numpy as np

from app.errors import Conflict, Damaged, NotFound, PayoffError, Unavailable
from app.registry.card import NAME, Card, read_card
from app.registry.loaded import Holdout, Loaded
from app.registry.mirror import Mirror, read_mirror
from app.registry.snapshot import NUMBER, Key, folder_of
from app.storage import Storage

CARD = "card.json"
SIGNATURE = "card.hmac"
ESTIMATOR = "model.joblib"
HOLDOUT = "holdout.npz"
MIRROR = "index.json"
SKLEARN = metadata.version("scikit-learn")  # importing it takes 60 MB and 0.7 s, which linear models do not need
_BLOCK = 2**20
_SPOOLED_BYTES = 16 * 2**20  # of a download in memory; more goes through a temporary file
_NAME = re.compile(NAME)
_NUMBER = re.compile(NUMBER)
_FOLDER = re.compile(f"{NAME}/{NUMBER}")


def pack(estimator: Any, holdout: Holdout | None = None) -> dict[str, bytes]:
    """A fitted estimator, and its hold-out where there is one, as the files of a version."""
    artifact = io.BytesIO()
    joblib.dump(estimator, artifact)
    files = {ESTIMATOR: artifact.getvalue()}
    if holdout is not None:
        table = io.BytesIO()
        np.savez_compressed(table, scores=np.asarray(holdout.scores, dtype=np.float64), y=np.asarray(holdout.y))
        files[HOLDOUT] = table.getvalue()
    return files


def unpack(files: Mapping[str, bytes]) -> tuple[Loaded, int]:
    """The model that `Files.fetch` returned, in memory, and the bytes of its files."""
    card = read_card(files[CARD])
    holdout = _unpack_holdout(files[HOLDOUT]) if HOLDOUT in card.sha256 else None
    loaded = Loaded(card, card.schema_of_features(), _unpickle(card, files[ESTIMATOR]), holdout)
    return loaded, sum(card.sizes.values())


class Files:
    """Reads and writes version folders and the index's mirror beside them."""

    def __init__(
        self,
        url: str,
        *,
        signing_key: bytes | None,
        allow_version_skew: bool,
        retry_seconds: float = 0.0,
        name: str = "PAYOFF_MODELS",
    ) -> None:
        self.storage = Storage(url, CARD, name=name, retry_seconds=retry_seconds)
        self._signing_key = signing_key
        self._allow_version_skew = allow_version_skew

    def stage(self, card: Card, files: Mapping[str, bytes], at: datetime) -> Card:
        """Write a version's folder whole; the card as it can be read back, with sizes, digests and the time.

        Conflict where the folder exists.
        """
        sealed = card.model_copy(
            update={
                "sizes": {name: len(content) for name, content in files.items()},
                "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
                "created_at": at,
            }
        )
        content = sealed.to_bytes()
        signature = {} if self._signing_key is None else {SIGNATURE: self._sign(content)}
        self.storage.publish(card.folder, {**files, **signature, CARD: content})
        return read_card(content)

    def read_card(self, key: Key) -> tuple[Card, bytes]:
        """A version's card and its bytes, not checked against signature or index.

        NotFound where there is no such folder; Damaged where the card is unreadable or another version's; Conflict
        where a newer service wrote it.
        """
        content = self.storage.read(folder_of(key), CARD)
        return _parse(key, content), content

    def read_cards(self, name: str, versions: list[int]) -> dict[int, tuple[Card, bytes] | PayoffError]:
        """The same of many versions of a model at once, or what is the matter with each."""
        contents = self.storage.read_each([folder_of((name, version)) for version in versions], CARD)
        found: dict[int, tuple[Card, bytes] | PayoffError] = {}
        for version in versions:
            folder = folder_of((name, version))
            try:
                content = contents[folder]
                found[version] = _parse((name, version), content), content
            except KeyError:
                found[version] = NotFound(f"there is no {folder}/{CARD}")
            except PayoffError as error:
                found[version] = error
        return found

    def trusted_card(self, key: Key, digest: str) -> Card:
        """A version's card, with the SHA-256 `digest` and, where there is a key, signed by us; Damaged where not."""
        return self._sealed(key, digest)[0]

    def loadable_card(self, key: Key, digest: str) -> Card:
        """The same; Conflict where another scikit-learn made the version, unless that is allowed."""
        card = self.trusted_card(key, digest)
        self._check_skew(card)
        return card

    def _sealed(self, key: Key, digest: str) -> tuple[Card, dict[str, bytes]]:
        """The card, with its signature file, if one is required."""
        try:
            content = self.storage.read(folder_of(key), CARD)
        except NotFound as absent:
            raise Damaged(f"the folder {folder_of(key)} is missing") from absent
        if hashlib.sha256(content).hexdigest() != digest:
            raise Damaged(f"{folder_of(key)}/{CARD} is not the card that was published")
        signature = {} if self._signing_key is None else {SIGNATURE: self._checked_signature(key, content)}
        return _parse(key, content), {**signature, CARD: content}

    def read(self, card: Card, name: str) -> bytes:
        """A file of a version; Damaged where it is not the one that the card was written for."""
        if name not in card.sha256:
            raise Damaged(f"the card of {card.folder} does not list {name}")
        try:
            content = self.storage.read(card.folder, name)
        except NotFound as absent:
            raise Damaged(f"{card.folder}/{name} is missing") from absent
        if hashlib.sha256(content).hexdigest() != card.sha256[name]:
            raise Damaged(f"{card.folder}/{name} does not have the digest in its card: it was changed or damaged")
        return content

    def open(self, card: Card, name: str) -> BinaryIO:
        """The same as a file at its beginning, for the caller to close; read through once, in little memory.

        One from a store on the network is read into a temporary file: what is verified is what the caller gets.
        """
        try:
            file = self.storage.open(card.folder, name)
        except NotFound as absent:
            raise Damaged(f"{card.folder}/{name} is missing") from absent
        if Storage.is_remote(self.storage.url):
            file = _spooled(file)
        if _digest(file) != card.sha256.get(name):
            file.close()
            raise Damaged(f"{card.folder}/{name} does not have the digest in its card: it was changed or damaged")
        file.seek(0)
        return file

    def fetch(self, key: Key, digest: str, admit: Callable[[int], None] = lambda _size: None) -> dict[str, bytes]:
        """Every file of a version, its card last: verified, signed by us where there is a key, and not unpickled.

        `admit` is called with the bytes before they are read, and may wait or raise.
        """
        card, sealed = self._sealed(key, digest)
        admit(sum(card.sizes.values()))
        self._check_skew(card)
        return {name: self.read(card, name) for name in card.sha256} | sealed

    def folders(self) -> Iterator[tuple[str, list[int]]]:
        """Each model's name with the numbers of its version folders, ascending, whether sealed or not."""
        for name in filter(_NAME.fullmatch, self.storage.folders()):
            yield name, sorted(map(int, filter(_NUMBER.fullmatch, self.storage.folders(name))))

    def clean_up(self, spare: Callable[[str], bool]) -> int:
        """Remove what killed processes left, except the folders to `spare`; how many there were."""
        return self.storage.clean_up(_FOLDER, spare=spare)

    def write_mirror(self, mirror: Mirror) -> None:
        self.storage.write(f"{mirror.name}/{MIRROR}", mirror.to_bytes())

    def read_mirror(self, name: str) -> Mirror | None:
        """What `write_mirror` wrote, None where nothing is; Damaged where it is unreadable."""
        path = f"{name}/{MIRROR}"
        try:
            mirror = read_mirror(self.storage.read_alone(path), path)
        except NotFound:
            return None
        if mirror.name != name:
            raise Damaged(f"{path} is that of the model {mirror.name!r}")
        return mirror

    def _sign(self, content: bytes) -> bytes:
        assert self._signing_key is not None
        return hmac.digest(self._signing_key, content, "sha256").hex().encode()

    def _checked_signature(self, key: Key, content: bytes) -> bytes:
        folder = folder_of(key)
        try:
            signature = self.storage.read(folder, SIGNATURE)
        except NotFound as absent:
            raise Damaged(f"{folder} is not signed, and a signing key is set: it is not loaded") from absent
        if not hmac.compare_digest(signature, self._sign(content)):
            raise Damaged(f"the signature of {folder} was not made with this service's key: it is not loaded")
        return signature

    def _check_skew(self, card: Card) -> None:
        made_with = card.packages.get("scikit-learn")
        if made_with != SKLEARN and not self._allow_version_skew:
            raise Conflict(
                f"{card.folder} was made with scikit-learn {made_with}, and {SKLEARN} is installed: train"
                " it again, or set PAYOFF_ALLOW_VERSION_SKEW to load it at your own risk"
            )


def _unpickle(card: Card, artifact: bytes) -> Any:
    if card.packages.get("scikit-learn") != SKLEARN:
        from sklearn.exceptions import InconsistentVersionWarning  # noqa: PLC0415 - see SKLEARN

        # the operator allowed it; for the whole process, since catch_warnings is not safe among threads
        warnings.filterwarnings("ignore", category=InconsistentVersionWarning)
    try:
        return joblib.load(io.BytesIO(artifact))
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise Damaged(f"{card.folder}/{ESTIMATOR} cannot be loaded by this version of the service: {what}") from error


def _unpack_holdout(content: bytes) -> Holdout:
    with np.load(io.BytesIO(content), allow_pickle=False) as table:
        return Holdout(table["scores"], table["y"])


def _parse(key: Key, content: bytes) -> Card:
    try:
        card = read_card(content)
    except PayoffError as error:
        raise type(error)(f"{folder_of(key)}/{CARD}: {error.detail}") from error
    if (card.name, card.version) != key:
        raise Damaged(f"the card in {folder_of(key)} is that of {card.folder}")
    return card


def _spooled(source: BinaryIO) -> BinaryIO:
    """The same bytes in a temporary file, at its beginning."""
    file = cast(BinaryIO, tempfile.SpooledTemporaryFile(_SPOOLED_BYTES))  # noqa: SIM115 - the caller closes it
    try:
        with source:
            shutil.copyfileobj(source, file, _BLOCK)
        file.seek(0)
    except OSError as error:
        file.close()
        raise Unavailable(f"no room for a temporary file in {tempfile.gettempdir()} ({error.strerror})") from error
    except BaseException:
        file.close()
        raise
    return file


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
