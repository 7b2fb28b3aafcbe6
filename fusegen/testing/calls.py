"""What random programs are made of: lines with fields, for everything that the language has.

`{v}` is the name that the last line of a text defines; `{x}` and `{y}` are values; what the other
fields stand for follows from the values or is drawn (`fusegen.testing.growing`).
"""

from __future__ import annotations

from collections.abc import Sequence

_ARITHMETIC = ("+", "-", "*", "/", "**", "//", "%")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "and", "or")
_UNARY = (
    *("neg", "abs", "sign", "square", "exp", "exp2", "expm1", "log1p", "sin", "cos", "tan", "tanh"),
    *("erf", "floor", "ceil", "trunc", "round", "round(decimals=1)", "sqrt", "rsqrt", "reciprocal"),
    *("log", "log2", "log10", "clone", "isnan", "isinf", "isfinite", "own", "Identity()"),
)
_ACTIVATIONS = (
    *("sigmoid", "logsigmoid", "relu", "relu6", "selu", "leaky_relu(0.2)", "elu(1.5)"),
    *("celu(alpha=0.7)", "gelu", 'gelu(approximate="tanh")', "silu", "mish", "softplus"),
    *("softplus(2, threshold=3)", "softsign", "softshrink(0.3)", "hardshrink", "tanhshrink"),
    *("threshold(0.1, -2)", "hardtanh(-0.5, 0.5)", "hardsigmoid", "hardswish"),
)
_ACTIVATION_LAYERS = (
    *("Sigmoid()", "LogSigmoid()", "Tanh()", "ReLU()", "ReLU6()", "LeakyReLU()", "ELU(0.5)"),
    *("SELU()", "CELU(1.5)", 'GELU("tanh")', "SiLU()", "Mish()", "Softplus(0.5)", "Softsign()"),
    *("Softshrink()", "Hardshrink(0.2)", "Tanhshrink()", "Threshold(-0.1, 3)", "Hardtanh()"),
    *("Hardsigmoid()", "Hardswish()", "Softmax({dim})", "LogSoftmax(dim={dim})"),
)
_OF_TWO = (
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "pow", "maximum", "minimum"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "own_of_two"),
)
_REDUCTIONS = (
    *("sum", "mean", "amax", "amin", "var", "std", "norm", "logsumexp", "prod", "argmax", "argmin"),
    *("any", "all"),
)
_WHOLE_REDUCTIONS = (
    *("sum", "mean", "amax", "argmin", "norm", "logsumexp(dim=(-2, -1))", "var(correction=0)"),
    *("norm(1, dim={dim})", "norm(inf, dim={dim})", "sum({dim}, dtype=float64)", "prod", "any"),
)
_VIEWS = (
    *("transpose({x}, {dim}, -1)", "unsqueeze({x}, {dim})", "squeeze({x}, dim=-1)"),
    *(
        "{x}[..., {half}:]",
        "{x}[..., ::2]",
        "{x}[..., 0]",
        "{x}[..., None]",
        "narrow({x}, -1, 0, {half})",
    ),
    *("reshape({x}, [-1, {last}])", "unflatten({x}, -1, ({rest}, {half}))", "flatten({x})"),
    *("flatten({x}, 1)", "permute({x}, {reversed})", "expand({x}[None], {expanded})"),
    *(
        "cat([{x}, {y}], dim={dim})",
        "stack([{x}, {y}, {x}], dim={dim})",
        "chunk({x}, 2, dim=-1)[1]",
    ),
    *("split({x}, {half}, dim=-1)[0]", "{x}[..., 1::3] * {y}[..., 1::3]", "{x} |> Flatten()"),
    "{x} |> Unflatten(-1, ({rest}, {half}))",
)
_NORMS = (
    *(
        "softmax({x}, dim={dim})",
        "log_softmax({x}, dim={dim})",
        "layer_norm({x}, ({last},), eps=0.1)",
    ),
    *("rms_norm({x}, ({last},), eps=0.1)", "group_norm({x}, {groups}, eps=0.1)"),
    *("batch_norm({x}, training=True)", "instance_norm({x}, eps=0.1)", "{x} - mean({x}, dim=0)"),
)
_NORM_LAYERS = (
    *("LayerNorm({last})", "RMSNorm({last}, eps=0.1)", "GroupNorm({groups}, {channels})"),
    *(f"BatchNorm{rank}d({{channels}})" for rank in (1, 2, 3)),
    *(f"InstanceNorm{rank}d({{channels}}, affine={{flag}})" for rank in (1, 2, 3)),
    "Block({last})",
)
_CONVOLUTION_LAYERS = (
    "Conv1d({channels}, {width}, 2)",
    "Conv1d({channels}, {channels}, 3, padding=2, groups={channels})",
    "Conv2d({channels}, {width}, 3, padding=1)",
    "Conv2d({channels}, {width}, {window}, stride=2, padding=1, bias=False)",
    "Conv2d({channels}, {channels}, 3, padding=2, dilation=2, groups={groups})",
    "Conv3d({channels}, 4, {window}, padding=1)",
    "ConvTranspose1d({channels}, 3, {window}, stride=2)",
    "ConvTranspose2d({channels}, 3, 2, stride=2)",
    "ConvTranspose3d({channels}, 2, {window})",
)
_CONVOLUTIONS = tuple(
    f"{{v}}_kernel = Parameter([{shape}{', 2' * rank}])\n{{v}} = {name}{rank}d({{x}}, {{v}}_kernel)"
    for name, shape in (("conv", "{width}, {channels}"), ("conv_transpose", "{channels}, 3"))
    for rank in (1, 2, 3)
)
_POOLS = (
    *(
        f"{name}{rank}d({{x}}, {{window}}, padding=1, ceil_mode={{flag}})"
        for name in ("max_pool", "avg_pool")
        for rank in (1, 2, 3)
    ),
    *(
        "max_pool2d({x}, 2, stride=1, dilation=2)",
        "avg_pool2d({x}, 2, 1, count_include_pad={flag})",
    ),
)
_POOL_LAYERS = tuple(
    f"{name}Pool{rank}d({{window}})" for name in ("Max", "Avg") for rank in (1, 2, 3)
)
_DROPOUTS = (
    *("dropout({x}, {p})", "dropout1d({x}, {p})", "dropout2d({x}, {p})", "dropout3d({x}, {p})"),
    *("{x} |> Dropout({p})", "{x} |> Dropout1d({p})", "{x} |> Dropout2d({p})"),
    "{x} |> Dropout3d({p})",
)
_PRODUCTS = (
    "{v}_layer = Linear({last}, {width}, bias={flag})\n{v} = {v}_layer({x})",
    "{v}_weight = Parameter([{last}, {width}])\n{v} = {x} @ {v}_weight",
    "{v}_weight = Parameter([{width}, {last}])\n{v} = linear({x}, {v}_weight)",
    "{v}_turned = transpose({y}, -2, -1)\n{v} = {x} @ {v}_turned",
    "{v}_turned = transpose({y}, -2, -1)\n{v} = matmul({v}_turned, {x})",
    "{v}_turned = transpose({y}, -2, -1)\n{v} = bmm({x}, {v}_turned)",
    "{v}_scores = {x} @ transpose({y}, -2, -1)\n{v} = softmax({v}_scores, dim=-1) @ {y}",
    "{v}_bias = Buffer([{width}], init=0.5)\n"
    "{v} = addmm({v}_bias, {x}, reshape({y}, [{last}, -1])[:, :{width}])",
    "{v}_turned = transpose({y}, 1, 2)\n{v}_bias = Parameter([{channels}, 1])\n"
    "{v} = baddbmm({v}_bias, {x}, {v}_turned, beta=2, alpha=0.5)",
    "{v}_turned = transpose({y}, 1, 2)\n{v}_bias = Parameter([{channels}])\n"
    "{v} = baddbmm({v}_bias, {x}, {v}_turned)",
)
_OTHERS = (
    "{v} = add({x}, {y}, alpha=2)",
    "{v} = sub({y}, {x}, alpha=0.5)",
    '{v} = div({x}, {y}, rounding_mode="floor")',
    '{v} = div({x}, {number}, rounding_mode="trunc")',
    "{v} = where({x} > {number}, {x}, {y})",
    "{v} = where({x}, {y}, {number})",
    *("{v} = {x} @ {y}", "{v} = {x} & {y}", "{v} = {x} | {y}", "{v} = {x} ^ {y}"),
    "{v} = clamp({x}, -1, {number})",
    "{v} = clamp({x}, {y}, None)",
    *("{v} = not {x}", "{v} = ~{x}", "{v} = -{x}", "{v} = {number} / {x}", "{v} = {number} - {x}"),
    *("{v} = {x} |> logical_not", "{v} = {x} |> bitwise_not"),
    "{v}_scale = Parameter([{last}])\n{v} = {x} * {v}_scale",
    "{v}_mean = Buffer([{channels}])\n{v}_running_var = Buffer([{channels}])\n"
    "{v} = batch_norm({x}, {v}_mean, {v}_running_var)",
)


def _defined(expressions: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{{v}} = {expression}" for expression in expressions)


def _of_x(functions: Sequence[str]) -> tuple[str, ...]:
    return _defined([f"{{x}} |> {function}" for function in functions])


def _between(operators: Sequence[str]) -> tuple[str, ...]:
    others = ("{y}", "{y}", "{number}")
    return _defined([f"{{x}} {sign} {other}" for sign in operators for other in others])


def _layers(layers: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{{v}}_layer = {layer}\n{{v}} = {{v}}_layer({{x}})" for layer in layers)


POINTWISE = _of_x((*_UNARY, *_ACTIVATIONS))
_NORM_LINES = (*_defined(_NORMS), *_layers(_NORM_LAYERS))
_VIEW_LINES = _defined(_VIEWS)
# A line is drawn from one of these groups, which are equally likely.
GROUPS: tuple[tuple[str, ...], ...] = (
    *(POINTWISE, POINTWISE, _of_x(_ACTIVATION_LAYERS), _OTHERS),
    *(_between(_ARITHMETIC), _between(_ARITHMETIC), _between(_COMPARISONS)),
    _defined([f"{function}({{x}}, {{y}})" for function in _OF_TWO]),
    _defined([f"{name}({{x}}, dim={{dim}}, keepdim={{flag}})" for name in _REDUCTIONS]),
    _of_x(_WHOLE_REDUCTIONS),
    *(_NORM_LINES, _NORM_LINES, _PRODUCTS, _PRODUCTS, _VIEW_LINES, _VIEW_LINES),
    (*_layers(_CONVOLUTION_LAYERS), *_CONVOLUTIONS),
    (*_defined(_POOLS), *_layers(_POOL_LAYERS)),
    *(_defined(["to({x}, {dtype})"]), _defined(_DROPOUTS)),
)
