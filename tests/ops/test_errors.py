"""What an operation refuses, and how it says so."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.construct import call
from fusegen.ops.record import Layer, Macro, OperationError, Stochastic
from fusegen.ops.registry import FUNCTIONS, LAYERS
from tests.ops.examples import fixed, placeholder

Shape = tuple[int | str, ...]
F32 = DType.FLOAT32


def typed(shape: Shape, dtype: DType) -> TensorType:
    """A type whose sizes are numbers or names."""
    sizes = (Integer.symbol(s) if isinstance(s, str) else Integer.of(s) for s in shape)
    return TensorType(tuple(sizes), dtype)


def refused(
    name: str, *shapes: Shape, dtype: DType = F32, **attributes: AttributeValue
) -> OperationError:
    """The error of a call on tensors of the given shapes."""
    nodes = tuple(placeholder(typed(shape, dtype)) for shape in shapes)
    record = FUNCTIONS[name]
    with pytest.raises(OperationError) as error:
        if isinstance(record, Macro):
            record.expand(nodes, Attributes.of(**attributes))
        elif isinstance(record, Stochastic):
            (x,), seed = nodes, placeholder(fixed((), DType.INT64))
            record.draw(x, seed, 0, Attributes.of(**{"p": 0.5, **attributes}))
        else:
            call(record, nodes, **attributes)
    return error.value


@pytest.mark.parametrize(
    "name,shapes,attributes,message,hint",
    [
        ("softmax", [(2, 3)], {"dim": 2}, "dim 2 is out of range", "from -2 to 1"),
        ("amax", [(2, 3)], {"dim": (0, -2)}, "a dim stands twice in (0, -2)", None),
        ("any", [(2, 3)], {"dim": ()}, "no dim to reduce in an empty list", "leave dim out"),
        ("logsumexp", [(2, 3)], {"dim": ()}, "no dim to reduce in an empty list", None),
        ("amax", [(0, 3)], {"dim": 0}, "empty tensor [0, 3] has no greatest", None),
        ("group_norm", [(2, 30)], {"num_groups": 8}, "30 channels", "divisors are 6 and 10"),
        ("group_norm", [(30,)], {"num_groups": 3}, "rank 2 or more", None),
        ("layer_norm", [(2, 8)], {"normalized_shape": (4,)}, "[4]", "last dim has size 8"),
        ("batch_norm", [(1, 3)], {"training": True}, "more than one value", None),
        ("batch_norm", [(2, 3)], {}, "needs running_mean", "training=True"),
        ("instance_norm", [(2, 3, 1)], {}, "more than one value", None),
        ("linear", [(2, 8), (4, 7)], {}, "[2, 8] does not fit the weight's [4, 7]", "be 7"),
        ("matmul", [("m", 8), (7, 4)], {}, "[m, 8] and [7, 4] cannot be", "last but one"),
        ("matmul", [(), (7, 4)], {}, "rank 1 or more", "use *"),
        ("bmm", [(2, 3, 4), (3, 4, 5)], {}, "equal batches", "matmul broadcasts"),
        ("addmm", [(4, 2), (2, 3), (3, 2)], {}, "[4, 2] and [2, 2] do not broadcast", "equal"),
        ("conv2d", [(1, 3, 8, 8), (4, 2, 3, 3)], {}, "has 3 channels", None),
        ("conv2d", [(1, 2, 2, 8), (4, 2, 3, 3)], {}, "larger than the padded", "padding"),
        ("conv2d", [(1, 2, 8, 8), (4, 2, 3, 3)], {"stride": (1, 2, 3)}, "3 numbers", None),
        ("conv2d", [(1, 2, 8, 8), (4, 2, 3, 3)], {"padding": "full"}, "'full'", "'same'"),
        ("conv2d", [(1, 2, 8, 8), (4, 2, 3, 3)], {"padding": "same", "stride": 2}, "of 1", None),
        ("conv2d", [(8, 8), (4, 2, 3, 3)], {}, "rank 4", "dim 0 is the batch"),
        (
            "conv_transpose2d",
            [(1, 2, 4, 4), (2, 2, 3, 3)],
            {"output_padding": 1},
            "smaller than the stride (1, 1) or the dilation (1, 1)",
            None,
        ),
        ("max_pool2d", [(1, 2, 8, 8)], {"kernel_size": 2, "padding": 2}, "half", "at most 1"),
        ("max_pool1d", [(1, 2, "n")], {"kernel_size": 2, "ceil_mode": True}, "symbolic", "argum"),
        ("reshape", [(2, 3)], {"shape": (4, -1)}, "[2, 3] cannot be reshaped", "6 elements"),
        ("reshape", [(2, 3)], {"shape": (-1, -1)}, "only one size may be -1", None),
        ("squeeze", [(1, "n")], {"dim": 1}, "whether the size n is 1", "reshape"),
        ("squeeze", [(1, "n")], {}, "whether the size n is 1", "name dims"),
        ("narrow", [()], {"dim": 0, "start": 0, "length": 1}, "a scalar has none", None),
        ("chunk", [()], {"chunks": 2, "dim": 0}, "a scalar has none", None),
        ("split", [()], {"split_size_or_sections": 1, "dim": -1}, "a scalar has none", None),
        ("permute", [(2, 3)], {"dims": (0, 0)}, "must name each of the 2 dims", None),
        ("expand", [(2, 3)], {"size": (2, 4)}, "[2, 3] cannot be expanded to [2, 4]", "grow"),
        ("narrow", [("n", 3)], {"dim": 0, "start": 0, "length": 4}, "surely lie inside", None),
        ("cat", [(2, 3), (2, 4)], {}, "[2, 3] and [2, 4] cannot be joined along dim 0", "equal"),
        ("stack", [(2, 3), (2, 4)], {}, "equal shapes", None),
        ("chunk", [("n", 3)], {"chunks": 2, "dim": 0}, "constant size", "argument"),
        ("split", [(6, 3)], {"split_size_or_sections": (2, 3), "dim": 0}, "add up to 5", None),
        ("clamp", [(2, 3)], {}, "needs min, max, or both", None),
        ("var", [(2, 3)], {"unbiased": False, "correction": 1}, "the same thing", "only one"),
        ("gelu", [(2, 3)], {"approximate": "exact"}, "cannot be 'exact'", "'none' or 'tanh'"),
        ("dropout", [(2, 3)], {"p": 1.5}, "p of dropout is 1.5", "from 0 to 1"),
        ("dropout", [(2, 3)], {"p": float("nan")}, "p of dropout is nan", None),
        ("dropout2d", [(2, 3, 4)], {}, "rank 4, and got float32[2, 3, 4]", None),
        ("dropout3d", [(2, 3)], {}, "rank 5 or 4", None),
    ],
)
def test_message_and_hint(
    name: str, shapes: list[Shape], attributes: dict[str, AttributeValue], message: str, hint: str
) -> None:
    error = refused(name, *shapes, **attributes)
    assert message in error.message
    assert hint is None or hint in (error.hint or "")


@pytest.mark.parametrize("name", ["gelu", "softmax", "mean", "var", "layer_norm", "dropout"])
def test_integers_are_refused_where_pytorch_refuses_them(name: str) -> None:
    extra = {"softmax": {"dim": 0}, "layer_norm": {"normalized_shape": (3,)}}.get(name, {})
    error = refused(name, (2, 3), dtype=DType.INT64, **extra)
    assert "floating-point tensors, and got int64[2, 3]" in error.message
    assert error.hint == "convert it first: to(x, float32)"


def test_a_product_of_two_dtypes_is_refused() -> None:
    x, w = placeholder(fixed((2, 3), DType.BFLOAT16)), placeholder(fixed((4, 3), F32))
    with pytest.raises(OperationError, match=r"bfloat16\[2, 3\] and float32\[3, 4\]"):
        call(FUNCTIONS["linear"], (x, w))  # type: ignore[arg-type]


def test_an_integer_to_a_negative_power_is_refused_when_written_out() -> None:
    x = placeholder(fixed((2,), DType.INT64))
    with pytest.raises(OperationError, match="negative integer power -1"):
        call(FUNCTIONS["pow"], (x, -1))  # type: ignore[arg-type]


def tensors_refused(layer: Layer, **arguments: AttributeValue) -> OperationError:
    """The error of constructing a layer."""
    defaults = {p.name: p.default for p in layer.parameters}
    with pytest.raises(OperationError) as error:
        layer.tensors(Attributes.of(**{**defaults, **arguments}))  # type: ignore[arg-type]
    return error.value


def test_layers_refuse_arguments_that_do_not_fit() -> None:
    error = tensors_refused(LAYERS["GroupNorm"], num_groups=8, num_channels=30)
    assert error.hint == "the nearest divisors are 6 and 10"
    error = tensors_refused(
        LAYERS["Conv2d"], in_channels=3, out_channels=4, kernel_size=3, groups=2
    )
    assert "3 channels cannot be divided into 2 groups" in error.message
    error = tensors_refused(LAYERS["Linear"], in_features=0, out_features=4)
    assert "in_features is 0" in error.message
