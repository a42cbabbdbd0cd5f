"""What several processes of one service tell their supervisor, and it tells them."""

from __future__ import annotations

from mmap import mmap


class Pulse:
    """Signs of life of n processes, and how many were replaced, in memory that they share with their supervisor."""

    def __init__(self, processes: int) -> None:
        self._cells = memoryview(mmap(-1, 8 * (processes + 2))).cast("Q")  # those replaced, and the beats of each

    def beat(self, number: int) -> None:
        """Process `number` answers; from its first call on it has to call again and again."""
        self._cells[number + 2] += 1

    def beats(self, number: int) -> int:
        return self._cells[number + 2]

    def replace(self, number: int, *, hung: bool) -> None:
        """Count one that ended; the next one of its number has given no sign of life yet."""
        self._cells[hung] += 1
        self._cells[number + 2] = 0

    @property
    def replaced(self) -> dict[str, int]:
        """How many processes were replaced since the start, by reason."""
        return {"ended": self._cells[0], "hung": self._cells[1]}
