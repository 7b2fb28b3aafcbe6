"""Everything a user can call, by the language's names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fusegen.ops import indexing
from fusegen.ops.composite import arithmetic as composite_arithmetic
from fusegen.ops.composite import (
    dropout,
    library,
    normalizations,
    products,
    reductions,
    softmax,
    views,
)
from fusegen.ops.layers import activations as activation_layers
from fusegen.ops.layers import dropout as dropout_layers
from fusegen.ops.layers import normalizations as normalization_layers
from fusegen.ops.layers import products as product_layers
from fusegen.ops.pointwise import activations, arithmetic, casting, functions, logic
from fusegen.ops.primitive import convolutions, poolings, random_numbers
from fusegen.ops.primitive import products as primitive_products
from fusegen.ops.primitive import reductions as primitive_reductions
from fusegen.ops.primitive import views as primitive_views
from fusegen.ops.record import Layer, Macro, Record, Stochastic

Function = Record | Macro | Stochastic

# What the planner and the code generator know. Where a composite has the same name, it is the one
# that a user calls: it takes all of PyTorch's arguments.
PRIMITIVES: tuple[Record, ...] = (
    *arithmetic.RECORDS,
    *logic.RECORDS,
    *functions.RECORDS,
    *activations.RECORDS,
    casting.CAST,
    casting.NARROW,
    *primitive_reductions.RECORDS,
    *primitive_views.RECORDS,
    *primitive_products.RECORDS,
    *convolutions.RECORDS,
    *poolings.RECORDS,
    *random_numbers.RECORDS,
)

# The functions by the sections of the language reference.
SECTIONS: Mapping[str, tuple[Function, ...]] = MappingProxyType(
    {
        "Arithmetic": (
            composite_arithmetic.ADD,
            composite_arithmetic.SUB,
            arithmetic.MUL,
            composite_arithmetic.DIV,
            arithmetic.FLOOR_DIVIDE,
            arithmetic.REMAINDER,
            composite_arithmetic.POW,
            arithmetic.MINIMUM,
            arithmetic.MAXIMUM,
            composite_arithmetic.CLAMP,
            arithmetic.NEG,
            arithmetic.ABS,
            arithmetic.SIGN,
            arithmetic.SQUARE,
            arithmetic.SQRT,
            arithmetic.RSQRT,
            arithmetic.RECIPROCAL,
        ),
        "Comparison, logic and conversion": (*logic.RECORDS, casting.CAST, functions.CLONE),
        "Exponentials, logarithms, trigonometry and rounding": (
            *(r for r in functions.RECORDS if r not in (functions.CLONE, functions.ROUND)),
            composite_arithmetic.ROUND,
        ),
        "Activations": activations.RECORDS,
        "Reductions": reductions.RECORDS,
        "Normalisations": (*softmax.RECORDS, *normalizations.RECORDS),
        "Dropout": dropout.FUNCTIONS,
        "Products": products.RECORDS,
        "Convolutions and poolings": library.RECORDS,
        "Views and joins": (*views.RECORDS, *indexing.MACROS),
    }
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {function.name: function for section in SECTIONS.values() for function in section}
)

LAYERS: Mapping[str, Layer] = MappingProxyType(
    {
        layer.name: layer
        for layer in (
            *product_layers.LAYERS,
            *normalization_layers.LAYERS,
            *dropout_layers.LAYERS,
            *activation_layers.LAYERS,
        )
    }
)

UNARY_OPERATORS: Mapping[str, Record] = MappingProxyType(
    {"-": arithmetic.NEG, "~": logic.BITWISE_NOT, "not": logic.LOGICAL_NOT}
)

OPERATORS: Mapping[str, Record] = MappingProxyType(
    {
        "+": arithmetic.ADD,
        "-": arithmetic.SUB,
        "*": arithmetic.MUL,
        "/": arithmetic.DIVIDE,
        "//": arithmetic.FLOOR_DIVIDE,
        "%": arithmetic.REMAINDER,
        "**": composite_arithmetic.POW,
        "@": products.MATMUL,
        "==": logic.EQ,
        "!=": logic.NE,
        "<": logic.LT,
        "<=": logic.LE,
        ">": logic.GT,
        ">=": logic.GE,
        "and": logic.LOGICAL_AND,
        "or": logic.LOGICAL_OR,
        "&": logic.BITWISE_AND,
        "|": logic.BITWISE_OR,
        "^": logic.BITWISE_XOR,
    }
)
