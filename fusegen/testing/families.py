"""Small models that between them have every kind of kernel, for the sanitizer and for verification
of the compiler itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusegen.frontend import Source
from fusegen.frontend.elaborate import ArgumentValue
from fusegen.testing.subject import Subject


@dataclass(frozen=True)
class Family:
    """A model that goes through a kind of kernel, with its arguments, and sizes for symbols that
    the kind depends on."""

    name: str
    text: str
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def subject(self, target: str | None = None) -> Subject:
        """The model under test; see `Subject.of`."""
        source = Source(f"{self.name}.fuse", self.text.strip() + "\n")
        return Subject.of(source, arguments=self.arguments, target=target)


ELEMENTWISE = """
model Pointwise(features=24):
    input x: [batch, features]
    input y: [batch, 1]
    gain = Parameter([features], init="ones")
    z = x * gain + y
    return gelu(z), cat([z, x], dim=1)
"""
ROWS = """
model Rows(columns=100):
    input x: [rows, columns]
    input residual: [rows, columns]
    norm = LayerNorm(columns)
    hidden = norm(x + residual)
    return softmax(hidden, dim=-1) * x, amax(hidden, dim=-1)
"""
IMAGES = """
model Images(channels=6, groups=3):
    input x: [batch, channels, height, width]
    norm = GroupNorm(groups, channels)
    return x |> norm |> relu, sum(x, dim=(0, 2, 3))
"""
LONG = """
model Long():
    input x: [rows, columns]
    return logsumexp(x, dim=1), var(x, dim=0)
"""
LINEAR = """
model Dense(inner=64, features=96, groups=6):
    input x: [rows, inner]
    fc = Linear(inner, features)
    norm = GroupNorm(groups, features)
    scale = Parameter([features], init="ones")
    y = fc(x) |> gelu
    return norm(y) * scale, logsumexp(y, dim=1)
"""
BARE = """
model Bare(inner=64, features=96):
    input x: [rows, inner]
    fc = Linear(inner, features)
    return fc(x) |> silu
"""
PREPARED = """
model Prepared(inner=64, features=96):
    input x: [rows, inner]
    scale = Parameter([inner], init="ones")
    fc = Linear(inner, features)
    return relu(x * scale) |> fc |> tanh
"""
SUMS = """
model Sums(inner=64, features=300):
    input x: [rows, inner]
    fc = Linear(inner, features)
    return x |> fc |> logsumexp(dim=1, keepdim=True) |> gelu
"""
BATCHES = """
model Attention():
    input q: [batch, queries, 16]
    input k: [batch, keys, 16]
    scores = q @ transpose(k, 1, 2)
    return softmax(scores * 0.25, dim=-1) @ k
"""
HEADS = """
model Heads(heads=2, width=16):
    input q: [batch, queries, heads * width]
    input k: [batch, keys, heads * width]
    apart_q = reshape(q, (batch, queries, heads, width)) |> transpose(1, 2)
    apart_k = reshape(k, (batch, keys, heads, width)) |> transpose(1, 2)
    y = softmax(apart_q @ transpose(apart_k, -2, -1), dim=-1) @ apart_k
    return reshape(transpose(y, 1, 2), (batch, queries, heads * width))
"""
MASKED_PRODUCT = """
model MaskedProduct(inner=128, features=128):
    input x: [rows, inner]
    input mask: bool[rows, features]
    fc = Linear(inner, features)
    return where(mask, fc(x), 0.5)
"""
MASKED = """
model Masked(heads=2, width=16):
    input x: [batch, time, 3 * heads * width]
    input mask: bool[time, time]
    parts = reshape(x, (batch, time, 3, heads, width)) |> permute((2, 0, 3, 1, 4))
    scores = where(mask, parts[0] @ transpose(parts[1], -2, -1), -inf)
    y = softmax(scores, dim=-1) @ parts[2]
    return reshape(transpose(y, 1, 2), (batch, time, heads * width))
"""
IMAGE_CONVOLUTION = """
model Convolved(channels=8, features=32, groups=8):
    input x: [batch, channels, height, width]
    conv = Conv2d(channels, features, 3, padding=1)
    norm = GroupNorm(groups, features)
    scale = Parameter([features, 1, 1], init="ones")
    return conv(x) * scale |> sigmoid |> norm
"""
PLANE_CONVOLUTION = """
model OfPlanes(channels=3, features=16, groups=4):
    input x: [batch, channels, 4, height, width]
    conv = Conv3d(channels, features, 3, padding=1)
    norm = GroupNorm(groups, features)
    return conv(x) |> sigmoid |> norm
"""
SPREAD_CONVOLUTION = """
model Upsampled(channels=3, features=20):
    input x: [batch, channels, depth, height, width]
    up = ConvTranspose3d(channels, features, 3, stride=2, padding=1, output_padding=1)
    return x |> up |> gelu
"""
LAST_CHANNELS = """
model ChannelsLast(channels=48, features=32):
    input x: [batch, channels, height, width]
    conv = Conv2d(channels, features, 3, padding=1)
    scale = Parameter([features, 1, 1], init="ones")
    return relu(conv(x)) * scale
"""
WINDOWS = """
model Windows(channels=64, features=72):
    input x: [batch, channels, height, width]
    first = Conv2d(channels, channels, 3, padding=1)
    second = Conv2d(channels, features, 3, padding=1)
    back = ConvTranspose2d(channels, features, 3, padding=1)
    inner = relu(first(x)) + x
    return gelu(second(inner)) + back(x)
"""
BATCH_NORM = """
model Standardised(inner=32, features=48):
    input x: [rows, inner]
    fc = Linear(inner, features)
    norm = BatchNorm1d(features)
    return x |> fc |> norm |> relu
"""

FAMILIES = (
    Family("elementwise", ELEMENTWISE),
    Family("elementwise, odd", ELEMENTWISE, {"features": 7}),
    Family("rows of a warp", ROWS),
    Family("rows of a part of a block", ROWS, {"columns": 1024}),
    Family("rows of a block", ROWS, {"columns": 3000}),
    Family("rows of a cluster", ROWS, {"columns": 40000}),
    Family("rows of a looping block", ROWS, {"columns": 140000}),
    Family("rows of images", IMAGES),
    Family("rows in parts", LONG, sizes={"rows": 2, "columns": 9000}),
    Family("outer rows", LONG, sizes={"rows": 700, "columns": 65}),
    Family("product", BARE),
    Family("product of odd sizes", BARE, {"inner": 37, "features": 45}),
    Family("skinny product", BARE, {"inner": 256, "features": 512}, {"rows": 7}),
    Family("product on narrow tiles", BARE, {"inner": 264, "features": 512}, {"rows": 100}),
    Family("product on wide tiles", BARE, {"inner": 136, "features": 2560}, {"rows": 1000}),
    Family("product on tiles between", BARE, {"inner": 136, "features": 4104}, {"rows": 300}),
    Family("float32 product in parts", BARE, {"inner": 1024, "features": 512}, {"rows": 130}),
    Family("product of what is made while it is loaded", PREPARED),
    Family("product of a long depth", BARE, {"inner": 300, "features": 24}, {"rows": 700}),
    Family("product with groups", LINEAR),
    Family("product with groups on wide tiles", LINEAR, {"features": 1536}, {"rows": 1500}),
    Family("product with row sums", SUMS),
    Family("products of batches", BATCHES),
    Family("products of heads", HEADS),
    Family("product under a mask", MASKED_PRODUCT),
    Family("attention under a mask", MASKED),
    Family("attention of wide heads", MASKED, {"heads": 1, "width": 128}),
    Family("convolution", IMAGE_CONVOLUTION),
    Family(
        "convolution of odd sizes", IMAGE_CONVOLUTION, {"channels": 3, "features": 20, "groups": 5}
    ),
    Family("convolution of planes", PLANE_CONVOLUTION),
    Family("convolution of a spread input", SPREAD_CONVOLUTION),
    Family("library's convolution with channels last", LAST_CHANNELS),
    Family("convolutions as products", WINDOWS, sizes={"batch": 2, "height": 5, "width": 7}),
    Family("product with statistics of a batch", BATCH_NORM),
)
"""Each kind of kernel at least once, forward and backward."""
