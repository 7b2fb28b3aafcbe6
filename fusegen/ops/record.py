"""The kinds of operation records: what the rest of the compiler knows about an operation.

Every operation is one record. The surface operations are those a user can call; a `Composite`
is rewritten into the primitive kinds (pointwise, reduction, view, concatenation, product, library
call) before planning, and keeps the name of PyTorch's function for the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, AttributeValue, Node, Operation, Shape, TensorType
from fusegen.ir.integers import Integer


class ParameterKind(Enum):
    """What an argument of an operation, layer or model may be."""

    TENSOR = "tensor"  # a tensor, or a number where the operation broadcasts
    OPTIONAL_TENSOR = "tensor or None"
    TENSORS = "list of tensors"
    SCALAR = "number"
    INTEGER = "integer"
    FLOAT = "float"
    FLAG = "bool"
    DIM = "dim"
    DIMS = "dims"  # one dim, a tuple of dims, or None for all
    SIZES = "sizes"  # a tuple of sizes, which may be symbolic; -1 where the operation infers one
    INTEGERS = "integer or tuple"  # kernel sizes, strides: one for all dims, or one each
    FLAGS = "tuple of bools"
    DTYPE = "dtype"
    TEXT = "string"


class _Required(Enum):
    REQUIRED = "required"


REQUIRED = _Required.REQUIRED


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operation or layer: PyTorch's name, kind and default for it.

    `choices` lists the allowed values of a TEXT parameter; `or_none` that None is allowed, as it is
    where it is the default.
    """

    name: str
    kind: ParameterKind
    default: AttributeValue | _Required = REQUIRED
    choices: tuple[str, ...] = ()
    or_none: bool = False


class OperationError(Exception):
    """Operands or attributes an operation does not accept; the frontend adds the place."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


Inference = Callable[[tuple[TensorType, ...], Attributes], TensorType]
Decomposition = Callable[[tuple[Node, ...], Attributes], Node]
# Given a node and the gradient of its value, that of each operand; None where there is none, as
# for indices, truth values and integers. One that is zero everywhere is `build.zeros`. An operand's
# gradient may have the broadcast shape and promoted dtype of the result: `differentiate` sums and
# converts it.
Gradient = Callable[[Node, Node], tuple[Node | None, ...]]


@dataclass(frozen=True)
class Record(Operation):
    """What every operation states.

    `parameters` are in PyTorch's order, tensors among them. A node's operands fill the tensor
    parameters in order, all further ones a TENSORS parameter; a missing optional tensor stands as
    None in the attributes, as every other parameter does with its value. `infer` gives the
    result's type or raises `OperationError`. `twin` is PyTorch's expression for it, in the form
    that `fusegen.ops.twin` renders: the reference that the kernels are held against. `summary` is
    a line for the language reference. `gradient`, written with the functions of
    `fusegen.ops.build`, has PyTorch's values at kinks; without one the operation is not
    differentiable, or, if it is a composite, has the gradient of what it decomposes into.
    """

    parameters: tuple[Parameter, ...]
    infer: Inference
    twin: str
    summary: str
    gradient: Gradient | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Near:
    """A quicker expression than an operation's own, whose error vanishes beside the rounding of a
    16-bit float.

    `instructions` are how many it takes on the device, `specials` of them on the special-function
    unit. `multiplied`, if any, has one of those less: it multiplies a reciprocal out.
    """

    cuda: str
    instructions: int
    specials: int
    multiplied: Near | None = None


@dataclass(frozen=True)
class Pointwise(Record):
    """An elementwise operation with broadcasting.

    `cuda` is a C++ expression over `{parameter}`s: operands arrive in the compute type of the
    promoted operand dtype, numbers as literals; it may call the functions in `math.cuh`. `cost` is
    roughly how many floating-point instructions an element takes on the device. Operands of a
    `floating` one that are integers or truth values are cast to float32 by the call that makes the
    node, as PyTorch does for `exp` or a division. `near`, if any, takes the place of `cuda` where
    the result is a 16-bit float or becomes one with the error that it has. An `exact` one gives an
    operand's value, its negative or a number that it is given, or a whole number: nothing that the
    arithmetic rounds.
    """

    cuda: str
    cost: int = 1
    floating: bool = False
    near: Near | None = None
    exact: bool = False


class Monoid(Enum):
    """How a primitive reduction combines elements; the value is its struct in `reduce.cuh`."""

    SUM = "Sum"
    PRODUCT = "Product"
    MAXIMUM = "Maximum"  # NaN if any element is
    MINIMUM = "Minimum"  # NaN if any element is
    ANY = "Any"
    ALL = "All"
    ARGMAX = "ArgMaximum"  # the first of equals; NaN counts as the greatest
    ARGMIN = "ArgMinimum"  # the first of equals; NaN counts as the least
    LOG_SUM_EXP = "LogSumExp"  # shifted by the maximum
    MEAN = "Mean"  # exact where all elements are equal
    MOMENTS = "Moments"  # sum of squared deviations from the mean, by Welford and Chan


@dataclass(frozen=True)
class Reduction(Record):
    """A primitive reduction of its one operand over the attribute `dims` (sorted, non-negative
    ints), which `keepdim` keeps as 1s. MOMENTS yields the sum of squared deviations, not divided.
    ARGMAX and ARGMIN yield the int64 position within the reduced dims, counted in row-major order.
    """

    monoid: Monoid


# Given a node's attributes, its operand's shape, and coordinates in its result, the coordinates in
# the operand.
CoordinateMap = Callable[[Attributes, Shape, tuple[Integer, ...]], tuple[Integer, ...]]


@dataclass(frozen=True)
class View(Record):
    """A rearrangement that copies nothing: element `i` of the result is element `source(i)` of its
    one operand."""

    source: CoordinateMap


@dataclass(frozen=True)
class Reshape(Record):
    """A view that keeps the row-major order of elements; its attribute `shape` is complete."""


@dataclass(frozen=True)
class Positions(Record):
    """Of each element of a tensor of the attribute `shape`, its place in row-major order: int64,
    made of no operand."""


@dataclass(frozen=True)
class Concatenation(Record):
    """Joins its operands along the attribute `dim`."""


@dataclass(frozen=True)
class Product(Record):
    """A batched matrix product: (*batch, M, K) by (*batch, K, N), batches equal, in the operands'
    dtype, accumulated in its compute type."""


@dataclass(frozen=True)
class LibraryCall(Record):
    """An operation left to PyTorch's own kernel, called from the generated C++.

    `aten` is the operator's name (`aten::convolution`), and `parameters` are exactly the
    operator's arguments in its order. Of the `results` it returns, the one at position `result` is
    the value. One that is not `repeatable` may have other bits in another run on a GPU. The tensors
    of one with `channels_last` have the channels in their last dim, and the operator takes views of
    them with the channels in the second.
    """

    aten: str
    results: int = 1
    result: int = 0
    repeatable: bool = True
    channels_last: bool = False


@dataclass(frozen=True)
class Composite(Record):
    """An operation defined by others: `decompose` writes it with the functions of
    `fusegen.ops.build`, and the result must have the inferred type."""

    decompose: Decomposition


@dataclass(frozen=True)
class Macro(Operation):
    """A function with several results, such as `chunk`: expanded where it is called, so it never
    stands in a graph. `expand` gives the results' nodes, or raises `OperationError`."""

    parameters: tuple[Parameter, ...]
    expand: Callable[[tuple[Node, ...], Attributes], tuple[Node, ...]]
    summary: str


@dataclass(frozen=True)
class Stochastic(Operation):
    """A function of one tensor that is random in training, and in evaluation the identity.

    Given the tensor, the seed of this call of the model, which of the model's random functions
    this is, and the arguments, `draw` gives its result in training, which is the tensor itself
    where nothing is random; or raises `OperationError`, in evaluation as well.
    """

    parameters: tuple[Parameter, ...]
    draw: Callable[[Node, Node, int, Attributes], Node]
    summary: str


@dataclass(frozen=True)
class Constant(Operation):
    """A number in a graph; its attribute `value` is the Python number, its type has rank 0."""


@dataclass(frozen=True)
class SizeValue(Operation):
    """The run-time value of a symbolic size as an int64 scalar; its attribute is `size`."""


CONSTANT = Constant("constant")
SIZE_VALUE = SizeValue("size_value")


@dataclass(frozen=True)
class LayerTensor:
    """A parameter or buffer of a layer: its attribute name in `torch.nn`, its shape, whether it is
    trained, and its dtype where it does not follow the module's."""

    name: str
    shape: tuple[int, ...]
    trained: bool = True
    dtype: DType | None = None


@dataclass(frozen=True)
class Layer:
    """A `torch.nn` layer: its constructor's parameters, its tensors, and its application.

    `tensors` gives the layer's parameters and buffers for given constructor arguments, or raises
    `OperationError`. `apply` builds its forward from the input nodes, its tensors' nodes by name,
    and the constructor arguments; the flag is the module's training mode. A batch norm also has
    `statistics`: this batch's mean and unbiased variance, by which PyTorch updates its buffers. One
    that is `stochastic` is that function in training, and `apply` is the identity.
    """

    name: str
    parameters: tuple[Parameter, ...]
    tensors: Callable[[Attributes], tuple[LayerTensor, ...]]
    apply: Callable[[tuple[Node, ...], dict[str, Node], Attributes, bool], Node]
    summary: str
    arity: int = 1
    statistics: Callable[[Node], tuple[Node, Node]] | None = None
    stochastic: Stochastic | None = None
