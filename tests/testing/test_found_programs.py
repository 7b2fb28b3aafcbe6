"""Small programs that random models led to, each of which the compiler once got wrong."""

from __future__ import annotations

import pytest

from fusegen.testing.case import Case, Filled
from fusegen.testing.fuzzing import failure_of
from fusegen.testing.layouts import Layout
from fusegen.testing.values import Values

FOUND = {
    # By way of the variance, the reference's own gradient was less than float64's least number on
    # the way, and much more behind it; so was, by the mean of the squares, the compiler's formula.
    "a layer norm of great values and tiny gradients": (
        "input x: [n, 5]\n    input y: [n, 5]\n    return layer_norm(x ** y, (5,), eps=0.1)",
        Case(
            "float32",
            {"n": 6},
            {"x": Filled(Values.HUGE), "y": Filled(Values.INTEGERS, seed=7)},
            gradients={"output": Filled(Values.TINY)},
        ),
    ),
    "an RMS norm of great values and tiny gradients": (
        "input x: [n, 5]\n    input y: [n, 5]\n    return rms_norm(x ** y, (5,), eps=0.1)",
        Case(
            "float32",
            {"n": 6},
            {"x": Filled(Values.HUGE), "y": Filled(Values.INTEGERS, seed=7)},
            gradients={"output": Filled(Values.TINY)},
        ),
    ),
    # PyTorch's own float64 gradient of what overflows is an infinity times 0.
    "a norm of cubes beyond float64": (
        "input x: [n, 3]\n    input y: [n, 3]\n"
        "    return reciprocal(norm(x ** y * x, p=3, dim=0, keepdim=True))",
        Case(
            "float32",
            {"n": 3},
            {"x": Filled(Values.HUGE, seed=349), "y": Filled(Values.INTEGERS, seed=629)},
        ),
    ),
    # PyTorch's own deviations from the mean of equal values are errors, in float64 as well.
    "the root of a batch norm of equal values": (
        "input x: [n, 3]\n    return sqrt(square(batch_norm(x, training=True)))",
        Case("float32", {"n": 3}, {"x": Filled(Values.NORMAL, Layout.EXPANDED, seed=205)}),
    ),
    # An infinite factor times a deviation that a kernel has as 0, as errors may, is NaN.
    "deviations of almost nothing": (
        "input x: [n, 5]\n    return std(x, dim=1, keepdim=True)",
        Case(
            "float32",
            {"n": 400},
            {"x": Filled(Values.OFFSET, seed=508822)},
            gradients={"output": Filled(Values.HUGE, seed=2126)},
        ),
    ),
    # A power of a negative number is one only where rounding makes the exponent whole, as in eager
    # mode, and in no sample.
    "exponents that may be whole": (
        "input x: [n, 40, 2, 32, 3]\n    input y: [n, 40, 2, 32, 3]\n    scale = Parameter([3])\n"
        "    d = x - y\n    return tanh(to(d, int8) * scale) ** d",
        Case(
            "bfloat16",
            {"n": 1},
            {
                "x": Filled(Values.WIDE, Layout.REVERSED_DIMS, seed=106),
                "y": Filled(Values.NORMAL, Layout.GAPS_BETWEEN_ROWS, seed=174),
                "scale": Filled(Values.CONSTANT_ROWS, Layout.UNALIGNED, seed=9660),
            },
        ),
    ),
    # Where neighbours are taken one by one, the seed was an element of a vector outside its loop.
    "dropped behind a norm of few columns": (
        "input x: [n, 5]\n    norm = RMSNorm(5)\n    return dropout(norm(x), 0.5)",
        Case("bfloat16", {"n": 3}, training=True),
    ),
    # The gradient that stood in for PyTorch's, which is NaN at infinities, was 0.
    "the slope of softsign at infinities": (
        "input x: [n, 16]\n    return softsign(x)",
        Case("float32", {"n": 8}, {"x": Filled(Values.SPECIAL)}),
    ),
    # PyTorch's gradient of a product of all is 0 where there are two zeros, whatever comes in.
    "the product of all and infinite gradients": (
        "input x: [n, 17]\n    return prod(x)",
        Case(
            "float32",
            {"n": 16},
            {"x": Filled(Values.INTEGERS)},
            gradients={"output": Filled(Values.SPECIAL, seed=48)},
        ),
    ),
    # Beside one 0 the gradient of what is infinite is 0; whether it is without depended in PyTorch
    # on whether another row has a 0.
    "products of zeros and infinities": (
        "input x: [n, 3]\n    return prod(relu(x), dim=1)",
        Case("float32", {"n": 256}, {"x": Filled(Values.SPECIAL, seed=1)}),
    ),
    # Errors had parted in all samples what is tied, and only the ties' gradients err.
    "the greatest of a softmax of ties": (
        "input x: [n, 40]\n    return amax(softmax(x, 0))",
        Case("float32", {"n": 17}, {"x": Filled(Values.TINY, seed=40697)}),
    ),
    "the formula for the greatest of ties": (
        "input x: [n, 40]\n    return amax(softmax(x, 0))",
        Case(
            "bfloat16",
            {"n": 17},
            {"x": Filled(Values.TINY, seed=40697)},
            gradients={"output": Filled(Values.UNIFORM, seed=23943)},
        ),
    ),
    # A kernel's divisor was nearer to 0 than that of any sample, as errors may have it.
    "a remainder by what may be 0": (
        "input x: [n, 17]\n    input y: [n, 17]\n    norm = GroupNorm(1, 17)\n"
        "    return x % norm(y)",
        Case("float32", {"n": 257}, {"y": Filled(Values.OFFSET, seed=5)}, order=11),
    ),
    # PyTorch's own gradients at NaN, in vectors of many, are those of no number or of another one.
    "activations at NaN": (
        "input x: [n, 16]\n    return elu(x, alpha=1.5), selu(x), hardswish(x), relu6(x)",
        Case("float32", {"n": 64}, {"x": Filled(Values.SPECIAL, seed=1)}),
    ),
    # The gradient was spread without the zeros behind its last element, of which there was none.
    "a slice with a step of which nothing is left": (
        "input x: [n, 6, h]\n    return x[..., 1::3]",
        Case("float32", {"n": 2, "h": 1}),
    ),
    # Of the integers that errors reach, a few samples had only some.
    "integers of large sums": (
        "input x: [n, 7]\n    input y: [n, 7]\n    layer = Linear(7, 7, bias=False)\n"
        "    return transpose(x, 0, 1) @ y |> layer |> to(int32)",
        Case(
            "float16",
            {"n": 2},
            {
                "x": Filled(Values.UNIFORM, Layout.REVERSED_DIMS, seed=69637),
                "y": Filled(Values.OFFSET, Layout.CHANNELS_LAST, seed=16384),
            },
            order=7,
        ),
    ),
    # PyTorch's own sigmoid is 0 where exp overflows; gelu's left tail is conditioned as x * x; and
    # PyTorch's gradient of hardtanh at NaN on a CPU is 0 in vectors, and passes outside of them.
    "the left tail of a sigmoid": (
        "input x: [n, 7]\n    return sigmoid(to(x, float64) - 710)",
        Case("float16", {"n": 100}),
    ),
    "gelu by tanh where rounding errors grow": (
        'input x: [n, 24]\n    return gelu(x, approximate="tanh")',
        Case("float32", {"n": 128}, {"x": Filled(Values.WIDE, seed=759)}),
    ),
    "the slope of hardtanh at NaN": (
        "input x: [n, 4]\n    return hardtanh(x, -0.5, 0.5)",
        Case("bfloat16", {"n": 33}, {"x": Filled(Values.SPECIAL)}),
    ),
    # The bounds' own slope of celu was a difference that cancels, as was PyTorch's gelu by tanh.
    "the slope of celu far from zero": (
        "input x: [n, 5]\n    return celu(x * x * x, alpha=0.7)",
        Case("float16", {"n": 129}),
    ),
    "the left tail of gelu by tanh": (
        'input x: [n, 5]\n    return gelu(-7 - abs(x) * 0.2, approximate="tanh")',
        Case("float32", {"n": 64}),
    ),
    # Great factors and small ones, in one order or another.
    "a product that overflows on the way": (
        "input x: [n, 1, h, 5]\n    return prod(x[..., 0])",
        Case("float32", {"n": 8, "h": 255}, {"x": Filled(Values.WIDE, Layout.EXPANDED)}),
    ),
    # The margin's zeros times infinite weights.
    "infinite weights of a convolution": (
        "input x: [n, 2, h, 5]\n    kernel = Parameter([6, 2, 2, 2])\n    return conv2d(x, kernel)",
        Case("float16", {"n": 2, "h": 17}, {"kernel": Filled(Values.INFINITE_ROWS, seed=2844)}),
    ),
    # A few samples had all fallen on one side of what decides.
    "a convolution compared with a number": (
        "input x: [n, 4, h, 5]\n    input y: [n, 4, h, 5]\n    kernel = Parameter([7, 4, 2, 2])\n"
        "    return conv2d(clone(y / x), kernel) <= 3",
        Case("bfloat16", {"n": 33, "h": 32}, {"x": Filled(Values.NORMAL, seed=43447)}, order=16),
    ),
    # All samples ended at an infinity, so that none showed how far errors reach.
    "gradients around the greatest number": (
        "input z: [33, 5]\n    norm = InstanceNorm1d(5, affine=False)\n"
        "    v = z |> tanhshrink |> norm\n    wide = to(v[..., None], float64)\n"
        "    rest = v % z\n    return rest, wide",
        Case(
            "float16",
            {},
            {"z": Filled(Values.CONSTANT_ROWS, Layout.REVERSED_DIMS, seed=203)},
            gradients={
                "rest": Filled(Values.HUGE, Layout.REVERSED_DIMS, seed=213),
                "wide": None,
            },
        ),
    ),
    # The seed that one choice had loaded for an element was taken for choices ahead of all.
    "dropped twice": (
        "input x: [16, 5]\n    first = Dropout(0.9)\n    last = Dropout(0.5)\n"
        "    return last(first(x)[..., 0])",
        Case("float32", {}, training=True),
    ),
    # What no element has was read for each row.
    "the gradient of a scale of nothing": (
        "input x: bool[n, 1]\n    scale = Parameter([1])\n    return x[..., 1:] * scale",
        Case("float16", {"n": 15}),
    ),
    # An element of the product was taken for the result of a reduction over one column.
    "the gradient of one deviation": (
        "input x: []\n    weight = Parameter([1, 2])\n"
        "    return std(flatten(x), dim=0, keepdim=True) @ weight",
        Case("float16", {}),
    ),
    # A kernel that reads no strides prepared divisions by a size that it was not given.
    "one column of a stored image": (
        "input x: [n, 6, h, 5]\n    y = exp(x)\n    return y[..., 0], y",
        Case("float32", {"n": 2, "h": 3}),
    ),
    # What underflows in exp was lost before it was multiplied by the input.
    "the left tail of mish": (
        "input x: [n, 16]\n    return mish(x)",
        Case("bfloat16", {"n": 16}, {"x": Filled(Values.WIDE, seed=207940)}),
    ),
    # The bounds had taken the gradient from what clamp is composed of, which halves it at ties.
    "clamp at its bounds": (
        "input x: [n, 5]\n    return clamp(x, -1, 3)",
        Case("float32", {"n": 8}, {"x": Filled(Values.INTEGERS)}),
    ),
    # A multiple of a number that the type does not have is not one of its neighbour in the type.
    "the remainder by a number": (
        "input x: [n, 4]\n    return x % 1e-3",
        Case("bfloat16", {"n": 255}, {"x": Filled(Values.INTEGERS)}),
    ),
    # An infinite gradient of a norm that is 0 is NaN in PyTorch.
    "the norm of zeros": (
        "input x: [n, 1]\n    return norm(x - x, dim=-1)",
        Case("bfloat16", {"n": 9}, gradients={"output": Filled(Values.SPECIAL)}),
    ),
    # The reference's own gradient of gelu was the difference of two infinities.
    "infinite gradients of gelu": (
        "input x: [n, 8]\n    return gelu(x)",
        Case("float32", {"n": 5}, gradients={"output": Filled(Values.INFINITE_ROWS)}),
    ),
    # What the forward saves was rounded to bfloat16 where formulas are compared in float64.
    "the softmax of rounded values": (
        "input x: [n, 5]\n    return softmax(to(x, dtype=bfloat16), dim=-1)",
        Case("float32", {"n": 3}),
    ),
    # PyTorch's own gradient has float32's sixth, also in float64.
    "a sixth": ("input x: [n, 16]\n    return hardsigmoid(x)", Case("float32", {"n": 2})),
    # PyTorch's gradient of a weight that was multiplied with nothing is NaN for group norm alone.
    "the group norm of nothing": (
        "input x: [n, 4, h]\n    norm = GroupNorm(2, 4)\n    return norm(x)",
        Case("bfloat16", {"n": 3, "h": 0}),
    ),
    # Beside two zeros a NaN was lost from the gradient of a product.
    "the product of zeros and NaN": (
        "input x: [n, 8]\n    return prod(x ** -1.5, dim=1)",
        Case("bfloat16", {"n": 9}, {"x": Filled(Values.HUGE)}),
    ),
    # PyTorch's NaN were infinities in a formula that does the same in another order.
    "infinite gradients of a norm": (
        "input x: [n, 37]\n    norm = LayerNorm(37)\n    return x |> relu |> norm",
        Case("float32", {"n": 4}, gradients={"output": Filled(Values.SPECIAL)}),
    ),
    # PyTorch's own gradient at NaN is NaN or 1, and elsewhere takes 1 / alpha in float32.
    "celu": (
        "input x: [n, 16]\n    return celu(x, alpha=0.7)",
        Case("float32", {"n": 3}, {"x": Filled(Values.SPECIAL, seed=1)}),
    ),
    # PyTorch differentiates no floor_divide, also where only an empty part of it is used.
    "no element of a quotient": (
        "input x: [n, 3]\n    return exp(x // -1.5)[:, 1:1]",
        Case("float32", {"n": 2}),
    ),
    # A gradient that is rounded to bfloat16 was compared with one that is not.
    "a product with rounded values": (
        "input x: [n, 5]\n    return to(x, bfloat16) * x",
        Case("float32", {"n": 3}),
    ),
    # A backward that needs no tensor had none to tell its device by.
    "a gradient of zeros": (
        "input x: [6, 6]\n    return relu(floor(x))",
        Case("float32"),
    ),
    # PyTorch multiplies zeros with infinite slopes where nothing flows, and has NaN.
    "nothing of a softmax of -inf": (
        "input x: [n, 8]\n    return mean(softmax(x, dim=1), dim=1)[1:1]",
        Case("float32", {"n": 6}, {"x": Filled(Values.INFINITE_ROWS)}),
    ),
    "steps of what is infinite": (
        "input x: [n, 8]\n    return floor(1 / x), round(1 / x, decimals=1)",
        Case("float32", {"n": 6}, {"x": Filled(Values.INTEGERS)}),
    ),
    # Below 10^-308 one way to compute a slope gives 0, and another a subnormal number.
    "the far tail of softplus": (
        "input y: [n, 2, h]\n    return softplus(y, beta=0.5)",
        Case("float16", {"h": 2, "n": 64}, {"y": Filled(Values.WIDE, seed=67)}),
    ),
    # Eager's sums overflow to NaN, which is less than nothing; a kernel's do not.
    "a comparison of what may overflow": (
        "input x: [n, 16]\n    input y: [n, 16]\n    norm = BatchNorm1d(16)\n"
        "    weight = Parameter([1, 16])\n"
        "    return linear(norm(y), weight) < 1e-3",
        Case(
            "bfloat16",
            {"n": 3},
            {
                "y": Filled(Values.HUGE, Layout.EXPANDED, seed=1000003),
                "weight": Filled(Values.INTEGERS, seed=545),
                "norm.weight": Filled(Values.INTEGERS, seed=8929),
                "norm.bias": Filled(Values.OFFSET, seed=952217),
            },
            training=True,
        ),
    ),
    # PyTorch's own gradient at NaN is that of another number in vectors of many.
    "shrinking NaN": (
        "input y: [n, 16]\n    return y |> softshrink(0.3) |> hardshrink(0.1)",
        Case("float16", {"n": 64}, {"y": Filled(Values.SPECIAL, seed=250)}),
    ),
    # As is the sign of its zeros.
    "the sign of what is shrunk to nothing": (
        "input x: [n, 8]\n    return 1 / softshrink(x)",
        Case("float32", {"n": 31}),
    ),
    # The bounds looked for the dim of a scalar.
    "the least of one": (
        "input x: []\n    return argmin(x, dim=0), argmax(x)",
        Case("bfloat16"),
    ),
    # Nor is what is chosen by such a comparison, or reduced.
    "truth values of what may overflow": (
        "input x: [n, 8, h, 3]\n    input y: [n, 8, h, 3]\n"
        "    return any(layer_norm(y, (3,), eps=0.1) // softsign(x), dim=0)",
        Case("float32", {"n": 2, "h": 40}, {"y": Filled(Values.HUGE, seed=158826)}),
    ),
    # PyTorch's own gradient is not quite 0, also in float64.
    "the norm of one": (
        "input x: [n, 1]\n    norm = LayerNorm(1)\n    groups = GroupNorm(1, 1)\n"
        "    return norm(x), groups(x)",
        Case("float32", {"n": 64}, {"x": Filled(Values.WIDE, seed=23615)}),
    ),
    # What overflows in the forward may have any slope in the backward.
    "slopes of what may overflow": (
        "input x: [n, 24, h, 5]\n    norm = BatchNorm2d(24)\n"
        "    conv = Conv2d(24, 1, 3, padding=1)\n    y = x |> norm |> conv\n    return relu6(y), y",
        Case(
            "bfloat16",
            {"h": 3, "n": 15},
            {
                "x": Filled(Values.INTEGERS, seed=16368),
                "conv.weight": Filled(Values.HUGE, seed=6289),
            },
            training=True,
        ),
    ),
    # Scaled truth values are truth values in PyTorch, and numbers have the dtype of the sum.
    "sums with scaled operands": (
        "input z: bool[n, 1]\n    input i: int8[n, 3]\n    input x: [n, 3]\n"
        "    return add(z, z, alpha=2), add(i, z, alpha=2), add(x, i, alpha=0.5)",
        Case("float32", {"n": 3}),
    ),
    # The gradient of a norm that is NaN was NaN, and is 0 in PyTorch.
    "the greatest of NaN": (
        "input x: [n, 4]\n    return norm(log(x), p=inf, dim=0)",
        Case("bfloat16", {"n": 37}),
    ),
    # Errors of equal size cancelled in every sample.
    "errors one after the other": (
        "input x: [n, 3]\n    input y: [n, 3]\n    input z: bool[n, 1]\n"
        "    norm = BatchNorm1d(3)\n    return norm(y)",
        Case(
            "float32",
            {"n": 128},
            {"norm.weight": Filled(Values.TINY), "norm.running_var": Filled(Values.ZEROS)},
        ),
    ),
    # The mean that goes with a variance is NaN where one value is infinite.
    "the mean of one infinity": (
        "input x: [n, 4, h]\n    input y: [n, 4, h]\n    bn = BatchNorm1d(4)\n"
        "    return bn(norm(y) // y)",
        Case("float16", {"h": 63, "n": 15}, training=True),
    ),
    # The mean of nothing was 0.
    "the statistics of an empty batch": (
        "input x: [n, 4]\n    norm = BatchNorm1d(4)\n    return norm(x)",
        Case("bfloat16", {"n": 0}, training=True),
    ),
    # The launcher's argument hid the kernel, and the binding's the launcher.
    "the name of a kernel": (
        "input x: [n, 32, h, 5]\n    input launch_y: [n, 7]\n"
        "    v_kernel = Parameter([8, 32, 2, 2])\n    v = conv2d(x, v_kernel)\n"
        "    y = exp(launch_y)\n    return v, y",
        Case("float16", {"n": 2, "h": 5}),
    ),
    # PyTorch's own gradient is a difference of terms that cancel.
    "the slope of softsign far from zero": (
        "input x: [n, 5]\n    return softsign(x)",
        Case("float32", {"n": 32}, {"x": Filled(Values.WIDE, seed=2464)}),
    ),
    "the slope of tanhshrink near zero": (
        "input x: [n, 8, 2, h, 3]\n    return tanhshrink(x)",
        Case("bfloat16", {"h": 2, "n": 16}),
    ),
    # PyTorch's own variance of channels that lie innermost is the difference of two sums.
    "the norm of channels far from zero": (
        "input x: [n, 8, h, 5]\n    return group_norm(x, 8)",
        Case(
            "bfloat16",
            {"n": 1, "h": 8},
            {"x": Filled(Values.OFFSET, Layout.CHANNELS_LAST, seed=65535)},
        ),
    ),
    # A kernel's angle lay beyond a pole, and all samples before it.
    "a tangent beyond its pole": (
        "input x: [n, 17, h, 5]\n    input y: [n, 17, h, 5]\n    input z: [17, 5]\n"
        "    v1_layer = Linear(5, 6, bias=False)\n    v1 = v1_layer(x)\n    v2 = v1 |> tan\n"
        "    return v2",
        Case(
            "float32",
            {"h": 32, "n": 8},
            {
                "x": Filled(Values.CONSTANT_ROWS, Layout.REVERSED_DIMS, seed=8004),
                "y": Filled(Values.TINY, seed=634),
                "v1_layer.weight": Filled(Values.WIDE, Layout.UNALIGNED, seed=34600),
            },
            order=17,
            gradients={"v2": Filled(Values.NORMAL, seed=1000)},
        ),
    ),
    # Of a negative base that is less than half of bfloat16's least number a kernel has 0.
    "a power of what is rounded to zero": (
        "input x: [n, 3, h, 3]\n    w = Parameter([3, 3])\n    z = Parameter([1])\n"
        "    return pow(x @ w, z - x)",
        Case(
            "bfloat16",
            {"h": 257, "n": 14},
            {"w": Filled(Values.TINY, Layout.UNALIGNED, seed=594816)},
            order=7,
        ),
    ),
    # PyTorch adds up a weight's gradient image by image in float16, whose range ends on the way.
    "a convolution's sums that overflow between images": (
        "input x: [n, 3, h, 5]\n    input y: [n, 3, h, 5]\n    v_kernel = Parameter([3, 3, 2, 2])\n"
        "    v = conv_transpose2d(y, v_kernel)\n    return squeeze(v, dim=-1) |> Hardswish()",
        Case(
            "float16",
            {"h": 1, "n": 3},
            {
                "y": Filled(Values.HUGE, Layout.EXPANDED, seed=227253),
                "v_kernel": Filled(Values.SPECIAL, Layout.EXPANDED, seed=18042),
            },
            order=3,
        ),
    ),
    # A call refuses such a batch, as PyTorch's layer does; the reference has only its statistics.
    "a batch norm of one value whose result is not used": (
        "input x: [n, 32]\n    v_layer = BatchNorm1d(32)\n    v = v_layer(x)\n    return relu(x)",
        Case("float16", {"n": 1}, training=True),
    ),
    # Of a product that errors take across 0 no sample is 0, and a kernel's may be.
    "what is true where a product is 0": (
        "input x: [n, 12, h, 5]\n    bias = Parameter([12])\n    scale = Parameter([12])\n"
        "    v = x[..., 0]\n"
        "    return logsumexp(not baddbmm(bias, v % -1.5, transpose(v, 1, 2)), dim=1) * scale",
        Case(
            "bfloat16",
            {"h": 3, "n": 128},
            {
                "x": Filled(Values.NORMAL, Layout.REVERSED_DIMS, seed=77),
                "bias": Filled(Values.CONSTANT_ROWS, Layout.REPEATED),
                "scale": Filled(Values.CONSTANT_ROWS, Layout.GAPS_BETWEEN_ELEMENTS, seed=1096),
            },
            order=18,
        ),
    ),
    # Its gradient's operands are the places of the greatest, integers.
    "the gradient of a pooling": (
        "input x: [n, 3, h, 8]\n    return max_pool2d(x, 2)",
        Case("float32", {"h": 4, "n": 2}),
    ),
    # Which of two zeros the greatest is is open, and with it the sign of an infinity.
    "a quotient by the greatest of zeros of both signs": (
        "input x: [n, 8, h, 5]\n    input y: [n, 8, h, 5]\n    input z: [8, 5]\n"
        "    weight = Parameter([5, 16])\n    v0 = z |> amax\n"
        '    v1 = div(y, v0, rounding_mode="floor")\n'
        "    v3 = y @ weight\n    return v1 > 2",
        Case(
            "bfloat16",
            {"h": 5, "n": 15},
            {
                "x": Filled(Values.WIDE, Layout.REVERSED_DIMS, seed=1152),
                "y": Filled(Values.WIDE, seed=4096),
                "z": Filled(Values.ZEROS, Layout.CHANNELS_LAST, seed=13885),
            },
            order=12,
        ),
    ),
    # A kernel read what is not there; it refuses that now.
    "the first of none": ("input x: [4, n]\n    return x[:, :1] + 1", Case("float32", {"n": 0})),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    body, case = FOUND[name]
    failure = failure_of(f"model Drawn():\n    {body}\n", case, "emulate")
    assert failure is None, str(failure)
