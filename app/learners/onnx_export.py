"""Models as ONNX files: imported ones, linear ones and forests of numeric features, with their sigmoid calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.decisions.calibration import Multinomial, Sigmoid
from app.errors import Conflict, Invalid
from app.features import Feature, Schema
from app.learners._linear import Logit, Softmax

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 9  # of the same age


def exported(estimator: Any, schema: Schema, classes: Sequence[int | str]) -> bytes:
    """An ONNX file whose last output are the probabilities; Invalid at /format for what cannot be converted exactly.

    Conflict where the converters are not installed.
    """
    try:
        import onnx  # noqa: F401, PLC0415 - an extra
        import skl2onnx  # noqa: F401, PLC0415
    except ImportError as error:
        raise Conflict("ONNX needs converters: install the extra 'onnx' (pip install 'payoff[onnx]')") from error
    scorer = getattr(estimator, "scorer", None)
    if scorer is None:
        return _ours(estimator, schema, classes)
    if estimator.calibrator_ is not None:
        raise Invalid.at("/format", "an imported model with a calibration cannot be exported as ONNX")
    content: bytes = scorer.onnx(schema)
    return content


def of_sklearn(model: Any, features: Sequence[Feature]) -> bytes:
    """A model of scikit-learn whose columns are `features`; Invalid at /format in the converter's words."""
    from skl2onnx import to_onnx  # noqa: PLC0415
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType  # noqa: PLC0415

    kinds = {"numeric": FloatTensorType, "categorical": StringTensorType}
    inputs = [(feature.name, kinds[feature.type]([None, 1])) for feature in features]
    if all(feature.type == "numeric" for feature in features):
        inputs = [("X", FloatTensorType([None, len(features)]))]
    try:
        content: bytes = to_onnx(
            model, initial_types=inputs, options={"zipmap": False}, target_opset=_OPSETS
        ).SerializeToString()
    except Exception as error:
        what = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
        raise Invalid.at("/format", f"skl2onnx cannot convert this model: {what}") from error
    return content


def _ours(estimator: Any, schema: Schema, classes: Sequence[int | str]) -> bytes:
    model: Any = getattr(estimator, "model_", None)
    calibrator = getattr(estimator, "calibrator_", None)
    if schema.categorical or not classes:
        what = "features of words" if schema.categorical else "numbers as labels"
        raise Invalid.at("/format", f"a model of {what} cannot be exported as ONNX; joblib can")
    graph = _Graph()
    if isinstance(model, Logit | Softmax):
        P = graph.linear(model)
    elif type(model).__name__ == "FlatForest" and model.n_trees:
        P = graph.forest(model.nodes)
    else:
        able = "logistic, random_forest and imported models"
        raise Invalid.at("/format", f"this kind of learner cannot be exported as ONNX, only {able}; joblib can")
    return graph.finish(graph.calibrated(P, calibrator), len(schema.names), classes)


class _Graph:
    """Nodes in float64; methods take and return the names of values."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper  # noqa: PLC0415

        self._helper, self._array = helper, numpy_helper.from_array
        self._double = helper.np_dtype_to_tensor_dtype(np.dtype(np.float64))
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def op(self, kind: str, *inputs: Any, domain: str = "", output: str = "", **attributes: Any) -> str:
        """Add an operator; inputs that are arrays become constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        output = output or f"v{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, names, [output], domain=domain, **attributes))
        return output

    def constant(self, value: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        array = np.asarray(value)
        self.constants.append(self._array(array.astype(np.float64) if array.dtype.kind == "f" else array, name))
        return name

    def linear(self, model: Logit | Softmax) -> str:
        """Probabilities of a linear model, missing values included."""
        linear, N = model.linear, "X"
        if linear.hinges is not None:
            N = self.op("Gather", N, linear.hinges.columns.astype(np.int64), axis=1)
        gap = self.op("IsNaN", N)
        if linear.hinges is not None:
            N = self.op(
                "Max", self.op("Sub", self.op("Min", N, linear.hinges.uppers), linear.hinges.knots), np.zeros(1)
            )
        known = self.op("MatMul", self.op("Where", gap, linear.means, N), linear.coef)
        marks = self.op("MatMul", self.op("Cast", gap, to=self._double), linear.marks)
        Z = self.op("Add", self.op("Add", known, marks), linear.intercept)
        return self.op("Softmax", Z, axis=1) if isinstance(model, Softmax) else self._pair(self.op("Sigmoid", Z))

    def forest(self, nodes: Any) -> str:
        """Mean distributions of the leaves; the operator answers in float32."""
        N, (roots, K) = len(nodes.feature), (nodes.roots, nodes.value.shape[1])
        tree = np.searchsorted(roots, np.arange(N), side="right") - 1
        place, leaf = np.arange(N) - roots[tree], np.flatnonzero(nodes.feature < 0)
        below = {side: np.where(nodes.feature < 0, 0, getattr(nodes, side) - roots[tree]) for side in ("left", "right")}
        votes = self.op(
            "TreeEnsembleRegressor", "X", domain="ai.onnx.ml", n_targets=K, aggregate_function="SUM",
            nodes_treeids=tree, nodes_nodeids=place, nodes_featureids=np.maximum(nodes.feature, 0),
            nodes_modes=np.where(nodes.feature < 0, "LEAF", "BRANCH_LEQ").tolist(),
            nodes_values_as_tensor=self._array(nodes.threshold, "thresholds"),
            nodes_truenodeids=below["left"], nodes_falsenodeids=below["right"],
            nodes_missing_value_tracks_true=(nodes.missing == nodes.left).astype(np.int64),
            target_treeids=tree[leaf].repeat(K), target_nodeids=place[leaf].repeat(K),
            target_ids=np.tile(np.arange(K), len(leaf)),
            target_weights_as_tensor=self._array(nodes.value[nodes.share[leaf]].astype(np.float64).ravel(), "leaves"),
        )  # fmt: skip
        return self._shares(self.op("Cast", votes, to=self._double))

    def calibrated(self, P: str, calibrator: Any) -> str:
        """The probabilities after a sigmoid calibration, or without any."""
        if calibrator is None:
            return P
        limit = np.float64(getattr(calibrator, "limit", 0.0))
        if isinstance(calibrator, Multinomial):
            Z = self.op("Mul", self.op("Log", self.op("Max", P, limit)), np.float64(calibrator.slope))
            Q = self.op("Softmax", self.op("Add", Z, calibrator.offsets), axis=1)
            return self._shares(self.op("Max", Q, np.float64(calibrator.lowest)))
        if not isinstance(calibrator, Sigmoid) or len(calibrator.slopes) > 1:
            what = f"the calibration {type(calibrator).__name__.lower()!r}"
            raise Invalid.at("/format", f"{what} cannot be exported as ONNX; train with calibration sigmoid or none")
        p = self.op("Clip", self.op("Gather", P, np.array([1]), axis=1), limit, 1.0 - limit)
        odds = self.op("Log", self.op("Div", p, self.op("Sub", np.ones(1), p)))
        line = self.op("Add", self.op("Mul", odds, calibrator.slopes), calibrator.offsets)
        lowest = np.float64(calibrator.lowest)
        return self._pair(self.op("Clip", self.op("Sigmoid", line), lowest, 1.0 - lowest))

    def finish(self, P: str, width: int, classes: Sequence[int | str]) -> bytes:
        """The file: `X` float64 (n, width) becomes `label` and `probabilities` float64 (n, K)."""
        make = self._helper
        names = self.constant(np.array(classes, dtype=object if isinstance(classes[0], str) else np.int64), "classes")
        self.op("Gather", names, self.op("ArgMax", P, axis=1, keepdims=0), output="label")
        self.op("Identity", P, output="probabilities")
        label = make.np_dtype_to_tensor_dtype(np.dtype(object if isinstance(classes[0], str) else np.int64))
        shapes = [("label", label, [None]), ("probabilities", self._double, [None, len(classes)])]
        graph = make.make_graph(
            self.nodes,
            "payoff",
            [make.make_tensor_value_info("X", self._double, [None, width])],
            [make.make_tensor_value_info(*shape) for shape in shapes],
            self.constants,
        )
        opsets = [make.make_opsetid(*opset) for opset in _OPSETS.items()]
        content: bytes = make.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="payoff"
        ).SerializeToString()
        return content

    def _pair(self, p: str) -> str:
        """Probabilities of both classes from those (n, 1) of the second."""
        return self.op("Concat", self.op("Sub", np.ones(1), p), p, axis=1)

    def _shares(self, P: str) -> str:
        return self.op("Div", P, self.op("ReduceSum", P, np.array([1]), keepdims=1))
