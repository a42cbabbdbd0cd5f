"""Benefit matrices saved for a model, which requests name: `benefits="autumn-2026"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from payoff_client.bodies import stated
from payoff_client.shapes import MATRICES, MATRIX, MATRIX_IN_WORDS
from payoff_client.signatures import readable
from payoff_client.stakes import Benefits
from payoff_client.wire import Call, Link, blocking, put, step


@readable
class MatrixMethods:
    """Save, list, read and delete the matrices of a model, as coroutines; `path` is that of the model."""

    def __init__(self, link: Link, path: str) -> None:
        self._link = link
        self._path = f"{path}/matrices"

    def _of(self, name: str) -> str:
        return f"{self._path}/{step(name, safe=':')}"

    async def _save(
        self,
        name: str,
        /,
        benefits: Benefits | None = None,
        *,
        cost_matrix: Benefits | None = None,
        actions: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Save benefits or a cost matrix for the classes of the latest version; other content is a new `version`.

        Raises Invalid where the matrix does not fit the classes or is too large, Conflict where there is no room.
        """
        document = stated(benefits=benefits, cost_matrix=cost_matrix, actions=actions)
        saved: dict[str, Any] = await self._link.document(put(self._of(name), document), MATRIX)
        return saved

    async def _list(self) -> list[dict[str, Any]]:
        """The newest version of each matrix, by name."""
        found: dict[str, Any] = await self._link.document(Call("GET", self._path), MATRICES)
        return list(found["matrices"])

    async def _get(self, name: str) -> dict[str, Any]:
        """A matrix in words, `name` or `name:2`: `benefits`, `actions`, `version`, `versions`; NotFound otherwise."""
        found: dict[str, Any] = await self._link.document(Call("GET", self._of(name)), MATRIX_IN_WORDS)
        return found

    async def _delete(self, name: str) -> None:
        """Delete a matrix with all its versions."""
        await self._link.request(Call("DELETE", self._of(name), repeatable=False))


class AsyncMatrices(MatrixMethods):
    """The matrices of an `AsyncModel`."""

    save = MatrixMethods._save
    get = MatrixMethods._get
    list = MatrixMethods._list
    delete = MatrixMethods._delete


class Matrices(MatrixMethods):
    """The matrices of a `Model`."""

    save = blocking(MatrixMethods._save)
    get = blocking(MatrixMethods._get)
    list = blocking(MatrixMethods._list)
    delete = blocking(MatrixMethods._delete)


async def pinned(matrices: MatrixMethods, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the version that a saved matrix has now, so that several requests use the same."""
    name = fields.get("benefits")
    if not isinstance(name, str) or ":" in name:
        return dict(fields)
    return {**fields, "benefits": f"{name}:{(await matrices._get(name))['version']}"}
