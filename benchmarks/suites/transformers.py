"""What transformers are made of: attention by heads under a mask, a block with it, columns that
gate others, and a linear layer before gelu and a layer norm."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.case import Case
from benchmarks.suites.programs import maker

BATCH, TIME, WIDTH, HEADS, HIDDEN = 8, 1024, 1024, 16, 4096
LONG_TIME = 2048  # of a sequence whose heads are twice as wide
ROWS = 65536
# What such models run in.
PRECISIONS = ("bfloat16", "float16")

ATTENTION = """\
fn attend(x, mask, batch, time, heads, size):
    parts = x |> reshape((batch, time, 3, heads, size)) |> permute((2, 0, 3, 1, 4))
    scores = parts[0] @ transpose(parts[1], -2, -1) * size ** -0.5
    values = softmax(where(mask, scores, -inf), dim=-1) @ parts[2]
    return values |> transpose(1, 2) |> reshape((batch, time, heads * size))

model Attention(time, width, heads):
    input x: [batch, time, 3 * width]
    mask = Buffer([time, time], dtype=bool)
    return attend(x, mask, batch, time, heads, width // heads)
"""

UNMASKED = """\
model Unmasked(time, width, heads):
    input x: [batch, time, 3 * width]
    size = width // heads
    parts = x |> reshape((batch, time, 3, heads, size)) |> permute((2, 0, 3, 1, 4))
    scores = parts[0] @ transpose(parts[1], -2, -1) * size ** -0.5
    values = softmax(scores, dim=-1) @ parts[2]
    return values |> transpose(1, 2) |> reshape((batch, time, width))
"""

BLOCK = (
    ATTENTION
    + """
model Block(time, width, heads, hidden):
    input x: [batch, time, width]
    norm_1 = LayerNorm(width)
    qkv = Linear(width, 3 * width)
    attention = Attention(time, width, heads)
    project = Linear(width, width)
    norm_2 = LayerNorm(width)
    expand = Linear(width, hidden)
    contract = Linear(hidden, width)
    y = x + (x |> norm_1 |> qkv |> attention |> project)
    return y + (y |> norm_2 |> expand |> gelu |> contract)
"""
)

GATED = """\
model Gated(width):
    input x: [rows, 2 * width]
    return x[:, :width] * sigmoid(x[:, width:])
"""

LINEAR_GELU_NORM = """\
model LinearGeluNorm(width, features):
    input x: [rows, width]
    linear = Linear(width, features)
    norm = LayerNorm(features)
    return x |> linear |> gelu |> norm
"""


class Attention(nn.Module):
    """Heads of queries, keys and values that lie side by side, under a causal mask if one of some
    `time` is wanted."""

    mask: Tensor | None

    def __init__(self, time: int | None, heads: int) -> None:
        super().__init__()
        self.heads = heads
        mask = None if time is None else torch.ones(time, time, dtype=torch.bool).tril()
        self.register_buffer("mask", mask)

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, each [batch, heads, time, size]."""
        batch, time, _ = x.shape
        return x.reshape(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()

    def forward(self, x: Tensor) -> Tensor:
        """The scores stand in memory."""
        q, k, v = self.parts(x)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if self.mask is not None:
            scores = torch.where(self.mask, scores, -torch.inf)
        values = torch.softmax(scores, -1) @ v
        return values.transpose(1, 2).flatten(2)


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, time: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention = Attention(time, heads)
        self.project = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        y = x + self.project(self.attention(self.qkv(self.norm_1(x))))
        result: Tensor = y + self.contract(F.gelu(self.expand(self.norm_2(y))))
        return result


class Gated(nn.Module):
    """Half of the columns gates the other half."""

    def forward(self, x: Tensor) -> Tensor:
        """The gated columns."""
        return F.glu(x)


class LinearGeluNorm(nn.Module):
    """A linear layer, exact gelu and a layer norm."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, x: Tensor) -> Tensor:
        """The chain."""
        result: Tensor = self.norm(F.gelu(self.linear(x)))
        return result


def without_scores(plain: nn.Module, x: Tensor) -> Tensor:
    """PyTorch's fused attention, forward."""
    assert isinstance(plain, Attention)
    q, k, v = plain.parts(x)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=plain.mask)


def _attention_operations(time: int) -> int:
    """Of both products, for heads that are together as wide as the lines."""
    return 4 * BATCH * time * time * WIDTH


def _attention(time: int, heads: int, *, is_masked: bool) -> Case:
    what = "attention" if is_masked else "unmasked attention"
    return Case(
        "transformers",
        f"{what} {BATCH}x{time} by {heads} heads of {WIDTH // heads}",
        functools.partial(Attention, time if is_masked else None, heads),
        maker(ATTENTION if is_masked else UNMASKED, time=time, width=WIDTH, heads=heads),
        (BATCH, time, 3 * WIDTH),
        _attention_operations(time),
        {"sdpa": without_scores},
        precisions=PRECISIONS,
    )


def cases() -> list[Case]:
    """A case for each."""
    rows = BATCH * TIME
    weights = 4 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN
    sizes = {"time": TIME, "width": WIDTH, "heads": HEADS}
    return [
        _attention(TIME, HEADS, is_masked=True),
        _attention(TIME, HEADS, is_masked=False),
        _attention(LONG_TIME, HEADS // 2, is_masked=False),
        Case(
            "transformers",
            f"block {BATCH}x{TIME}x{WIDTH}",
            functools.partial(Block, TIME, WIDTH, HEADS, HIDDEN),
            maker(BLOCK, **sizes, hidden=HIDDEN),
            (BATCH, TIME, WIDTH),
            _attention_operations(TIME) + 2 * rows * weights,
            precisions=PRECISIONS,
        ),
        Case(
            "transformers",
            f"gated {ROWS}x{HIDDEN}",
            Gated,
            maker(GATED, width=HIDDEN // 2),
            (ROWS, HIDDEN),
            beside={"clone": lambda plain, x: x.clone()},
            precisions=PRECISIONS,
        ),
        Case(
            "transformers",
            f"linear gelu norm {ROWS}x{WIDTH}",
            functools.partial(LinearGeluNorm, WIDTH, WIDTH),
            maker(LINEAR_GELU_NORM, width=WIDTH, features=WIDTH),
            (ROWS, WIDTH),
            2 * ROWS * WIDTH * WIDTH,
            precisions=PRECISIONS,
        ),
    ]
