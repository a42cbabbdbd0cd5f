"""What a model in an ONNX file may compute: its memory depends on the number of rows, and not on what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.errors import Invalid
from app.text import some_of

_TREES_AND_SO_ON = """ArrayFeatureExtractor Binarizer CategoryMapper FeatureVectorizer Imputer LabelEncoder
    LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble
    TreeEnsembleClassifier TreeEnsembleRegressor ZipMap"""
_NUMBERS = """Abs Add And ArgMax ArgMin BatchNormalization Cast CastLike Ceil Celu Clip Concat Constant Cos CumSum Div
    Dropout Elu Equal Erf Exp Flatten Floor Gather GatherElements Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish
    Hardmax Identity InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
    LpNormalization MatMul Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Selu Shape
    Sigmoid Sign Sin Size Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu TopK
    Transpose Unsqueeze Where Xor"""
_SIZED = {"ConstantOfShape": 0, "Expand": 1, "OneHot": 1, "Pad": 1, "Tile": 1}  # the input that says how large
_ALLOWED = {"ai.onnx.ml": frozenset(_TREES_AND_SO_ON.split()), "": frozenset((*_NUMBERS.split(), *_SIZED))}
_LIKE_ANOTHER = ("ConstantOfShape", "Expand")  # their size may also be that of another tensor
_LARGEST = 2**20  # elements
_EXTERNAL = 1  # TensorProto.DataLocation
_SHOWN = 10
_WHERE = "docs/how-to/import-a-model.md lists the operators"


def check_operators(model: Any) -> None:
    """Invalid with the names of operators that a ModelProto may not have, and for data outside of the file."""
    refused: set[str] = {f"the function {one.name!r}" for one in model.functions}
    sized = _constants(model.graph), {node.output[0] for node in model.graph.node if node.op_type == "Shape"}
    for message in messages(model):
        if message.DESCRIPTOR.name == "TensorProto" and message.data_location == _EXTERNAL:
            what = f"the tensor {message.name[:64]!r} is in another file"
            raise Invalid.at("/file", f"{what}; save the model as one file")
        if message.DESCRIPTOR.name == "NodeProto":
            domain = "" if message.domain == "ai.onnx" else message.domain
            if message.op_type not in _ALLOWED.get(domain, ()):
                refused.add(f"{domain}{'.' * bool(domain)}{message.op_type}"[:64])
            elif domain == "" and message.op_type in _SIZED:
                _check_size(message, *sized)
    if refused:
        named = some_of(sorted(refused), _SHOWN)
        raise Invalid.at("/file", f"the model computes what an ONNX file may not compute: {named}; {_WHERE}")


def messages(message: Any) -> Iterator[Any]:
    """A message and all inside it."""
    waiting = [message]
    while waiting:
        one = waiting.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _constants(graph: Any) -> dict[str, Any]:
    """The constant tensors of a graph by their names, without those that the input could replace."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            found.update((node.output[0], one.t) for one in node.attribute if one.name == "value")
    for one in graph.input:
        found.pop(one.name, None)
    return found


def _check_size(node: Any, constants: dict[str, Any], shapes: set[str]) -> None:
    from onnx import numpy_helper  # noqa: PLC0415 - an extra

    size = [*node.input, "", ""][_SIZED[node.op_type]]
    if node.op_type in _LIKE_ANOTHER and size in shapes:
        return
    tensor = constants.get(size)
    if tensor is None:
        what = f"the size that {node.op_type} makes is not a constant of the file"
        raise Invalid.at("/file", f"{what}: some row could take all memory; {_WHERE}")
    values = np.maximum(np.abs(numpy_helper.to_array(tensor).astype(np.float64)), 1)
    if not values.prod() <= _LARGEST:
        raise Invalid.at("/file", f"the size that {node.op_type} makes is above {_LARGEST:,}")
