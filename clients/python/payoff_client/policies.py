"""Pictures of policies learned from rewards: of the metrics of a card, and of outcomes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from payoff_client import pictures
from payoff_client.pictures import Line, plot


def _ends(interval: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The ends of an interval, none where there is no interval."""
    return [] if interval["low"] is None else [(interval["low"], interval["high"])]


def _words(interval: Mapping[str, Any]) -> str:
    mean = f"{interval['mean']:.3g}"
    if interval["low"] is None:
        return f"{mean}, no interval"
    return f"{mean} ({interval['low']:.3g} to {interval['high']:.3g})"


def _dots(ways: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Line]:
    """A dot with its interval for each way, the first of which is the policy."""
    return [
        Line(
            f"{name}: {_words(interval)}",
            [(place, interval["mean"])],
            "second" if place else "first",
            _ends(interval),
            dots=True,
        )
        for place, (name, interval) in enumerate(ways)
        if interval["mean"] is not None
    ]


def _ways(metrics: Mapping[str, Any]) -> str:
    """What the policy, the log and single actions earn."""
    actions = metrics["actions"]
    ways = [("the policy", metrics["value"])]
    ways += [(f"always {action['action']}", action["value"]) for action in actions]
    logged = metrics["logged"]
    places = [(-0.5, logged), (len(actions) + 0.5, logged)]
    gain = f"the log: {logged:.3g}; the policy earns more by {_words(metrics['gain'])}"
    return plot(
        f"Ways to decide: {_spaced(metrics['verdict'])}",
        ("", "reward per case, with 95 % intervals"),
        [*_dots(ways), Line(gain, places, "plain")],
    )


def _calibration(metrics: Mapping[str, Any]) -> str:
    """What the chosen actions were expected to earn, beside what they earned."""
    bins = metrics["calibration"]
    dots = [(part["predicted"], part["observed"]["mean"]) for part in bins]
    band = [end for part in bins for end in _ends(part["observed"])]
    low, *_, high = sorted(value for dot in dots for value in dot)
    lines = [
        Line("as expected", [(low, low), (high, high)], "plain"),
        Line(
            "actions of the policy, with 95 % intervals",
            dots,
            band=band if len(band) == len(dots) else [],
            dots=True,
        ),
    ]
    titles = "expected reward", "observed reward"
    return plot("Expected and observed rewards", titles, lines)


def _uplift(metrics: Mapping[str, Any]) -> str:
    """The curves of the best treatment over the baseline, and of single treatments."""
    uplift = metrics["uplift"]
    curves = {single["action"]: single for single in uplift["treatments"]}
    if len(curves) > 1:
        curves = {"the best treatment": uplift["best"]} | curves
    return "".join(
        _curve(f"{name} instead of {uplift['baseline']}", curve)
        for name, curve in curves.items()
    )


def _curve(name: str, curve: Mapping[str, Any]) -> str:
    """A curve, from where it has intervals on; its words say where it is highest."""
    points = [point for point in curve["curve"] if curve["reason"] or _ends(point)]
    line = [(point["share"], point["mean"]) for point in points]
    share, highest = max(line, key=lambda point: point[1])
    lines = [
        Line(
            f"largest uplift first: most at {share:.0%}, {highest:.3g}; with its 95 % interval",
            line,
            band=[end for point in points for end in _ends(point)],
        ),
        Line("as many at random", [(0, 0), line[-1]], "plain"),
    ]
    return plot(
        f"Uplift, {name}: area over random {_words(curve['area'])}",
        ("share of cases treated", "gain per case"),
        lines,
    )


def _outcomes(report: Mapping[str, Any]) -> str:
    """What decisions by rewards promised and earned, and what the policy gains over other ways."""
    rewards = report["rewards"]
    policy = rewards["policy"]
    if policy is None:
        return ""
    promised = rewards["promised"] | {"low": None, "high": None}
    ways = [
        ("the policy without exploration", policy["value"]),
        ("what was decided", rewards["realised"]),
        ("what was promised", promised),
    ]
    gains = [("more than what was decided", policy["gain"])]
    gains += [
        (f"more than always {single['action']}", single["gain_over"])
        for single in policy["single_actions"]
    ]
    return plot(
        f"Rewards: {_spaced(rewards['verdict'])}",
        ("", "reward per decision, with 95 % intervals"),
        _dots(ways),
    ) + plot(
        f"What the policy earns more: {_spaced(policy['verdict'])}",
        ("", "gain per decision, with 95 % intervals"),
        [*_dots(gains), Line("no gain", [(-0.5, 0), (len(gains) - 0.5, 0)], "plain")],
    )


def _spaced(name: str) -> str:
    return name.replace("_", " ")


PICTURES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    **pictures.PICTURES,
    "best_single": _ways,
    "calibration": _calibration,
    "uplift": _uplift,
    "rewards": _outcomes,
}
