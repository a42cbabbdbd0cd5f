"""The columns of many selected sets, as one Selection for each set."""

from app.retrieval.selection import Selection, Selections


def sets_of(many: Selections) -> list[Selection]:
    return [_set(many, i) for i in range(len(many.k))]


def _set(many: Selections, i: int) -> Selection:
    first, last, k = many.offsets[i], many.offsets[i + 1], int(many.k[i])
    return Selection(
        indices=many.order[first : first + k],
        k=k,
        expected_loss=float(many.expected_loss[i]),
        curve=None if many.curves is None else many.curves[first + i : last + i + 1],
        expected_precision=float(many.expected_precision[i]),
        expected_recall=float(many.expected_recall[i]),
        error_bound=float(many.error_bound[i]),
        warnings=many.warnings,
    )
