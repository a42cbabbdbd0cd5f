"""Formats of what joblib files of models contain."""

import pickle

import numpy as np
import pytest

from payoff import stored
from payoff.acquisition.nodes import Nodes, nodes_of
from payoff.decisions.calibration import Sigmoid
from payoff.stored import NewerFormat


def test_an_object_comes_back_equal():
    curve = Sigmoid(np.array([1.5]), np.array([-0.25]), lowest=0.01)

    restored = pickle.loads(pickle.dumps(curve))

    assert vars(restored) == vars(curve)


def test_a_newer_format_is_refused_by_name():
    state = Sigmoid(np.ones(1), np.zeros(1), lowest=0.01).__getstate__()

    with pytest.raises(NewerFormat, match="format 2 of 'Sigmoid'"):
        Sigmoid.__new__(Sigmoid).__setstate__(state | {"format": 2})


def test_an_older_format_is_read_by_the_table(monkeypatch):
    monkeypatch.setitem(
        stored.OLDER, ("Curve", 1), lambda attributes: {"level": attributes["offset"]}
    )

    assert stored.attributes_of("Curve", 2, {"format": 1, "offset": 3}) == {"level": 3}


def test_nodes_of_a_newer_format_are_refused():
    with pytest.raises(NewerFormat, match="'Nodes'"):
        nodes_of({"format": 2})


def test_nodes_come_back_equal():
    nodes = Nodes.of(
        feature=np.array([0, 0, 0], np.int32),
        threshold=np.array([0.5, 0.0, 0.0], np.float32),
        right=np.array([2, -1, -2], np.int32),
        value=np.array([[1.0, 0.0], [0.0, 1.0]], np.float32),
        roots=np.array([0], np.int32),
        prior=np.array([0.5, 0.5]),
        share=np.empty(0, np.int32),
        cover=np.empty(0, np.float32),
    )

    restored = pickle.loads(pickle.dumps(nodes))

    assert all(np.array_equal(*pair) for pair in zip(restored, nodes, strict=True))
