"""Programs made wrong at random: what a slip of the hand, a bad merge or a broken file gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

# A bit of everything that the language has, so that parts of it can stand in wrong places.
SEEDS = (
    """# A program with a bit of everything.
model Main(n=8, heads=2, scale=1e-3, mode="tanh", flag=True):
    input x: [b, n]
    input mask: bool[b, 1]
    hidden = 2 * n // heads
    block = Block(n, hidden)
    bias = Parameter([n], init=0.5)
    left, right = chunk(x, 2, dim=-1)
    y = where(mask, x |> block |> gelu(mode), -inf) / sqrt(n)
    z = cat([left[:, 0:2], right[..., None, ::2][:, 0]], dim=1) |> softmax(dim=1)
    return y * bias + x ** 2 @ transpose(block.fc.weight, 0, 1), (z > 0) & flag, -f(x, t=scale)

model Block(dim, hidden):
    input x: [b, dim]
    norm = BatchNorm1d(dim)
    fc = Linear(dim, dim, bias=False)
    shift = Buffer([hidden])
    return x |> norm |> fc

fn f(u, t=2):
    s, _ = chunk(u * t, 2, dim=1)
    return s % 3 - mean(u, dim=1, keepdim=True)
""",
    """model Image(channels=8, groups=4):
    input x: [n, channels, h, w]
    input shift: float16[channels, 1, 1]

    conv = Conv2d(channels, 2 * channels, 3, padding=1, stride=(2, 1))
    norm = GroupNorm(groups, 2 * channels, eps=1e-3)
    pooled = x + to(shift, float32)
        |> conv  # halves the height
        |> norm
        |> max_pool2d(2, padding=1)
        |> ReLU()
    a, b, c = split(flatten(pooled, 2), [2, 6, 8], 1)
    total = logsumexp(reshape(c, [-1, 8]), dim=-1) / (n * h + 1)
    return stack([a, a], dim=0), sum(b, dim=(1, 2), dtype=float64), total, norm.weight[None, :-1]
""",
)
PIECES = (
    *("(", ")", "[", "]", ",", ":", "=", "==", "|>", "+", "-", "*", "**", "@", "/", "//", "%"),
    *(".", "...", "\n", "\r\n", "\r", "    ", "\t", "#", '"', "'", "0", "-1", "1e400", "2.5", "x"),
    *("n", "b", "_", "None", "True", "inf", "nan", "model", "fn", "input", "return", "and", "not"),
    *("relu", "Linear", "Block", "float32", "reshape(x, [b, -1])", "sum(x)", "x.T", "é", "\x00"),
    *(
        "99999999999999999999",
        "1_0",
        "\ufeff",
        "\u2028",
        "\x0c",
        "\\",
        ";",
        "x[",
        "((((",
        "🙂",
        "~",
    ),
)


def mutated(random: Random, seeds: Sequence[str] = SEEDS) -> str:
    """A program with one to six changes; the same for the same state of `random`."""
    text = random.choice(seeds)
    for _ in range(random.randint(1, 6)):
        text = random.choice(_MUTATIONS)(random, text, seeds)
    return text


Mutation = Callable[[Random, str, Sequence[str]], str]


def _span(random: Random, text: str, longest: int) -> tuple[int, int]:
    start = random.randint(0, len(text))
    return start, min(len(text), start + random.randint(0, longest))


def _replace(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A few characters replaced by a piece of syntax."""
    start, end = _span(random, text, 6)
    return text[:start] + random.choice(PIECES) + text[end:]


def _scramble(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A character replaced by any other, outside of ASCII too."""
    start, end = _span(random, text, 1)
    highest = random.choice((0x7F, 0x2FF, 0xD7FF))
    return text[:start] + chr(random.randint(0, highest)) + text[end:]


def _delete(random: Random, text: str, seeds: Sequence[str]) -> str:
    start, end = _span(random, text, 40)
    return text[:start] + text[end:]


def _cut(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A file that ends too soon."""
    return text[: random.randint(0, len(text))]


def _exchange_words(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A word in another's place: names of other kinds, operators, numbers."""
    words = list(re.finditer(r"\w+|[^\w\s]+", text))
    if not words:
        return text
    place = random.choice(words)
    others: list[str] = re.findall(r"\w+|[^\w\s]+", random.choice(seeds))
    other = random.choice(others)
    return text[: place.start()] + other + text[place.end() :]


def _move_line(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A line repeated, moved or taken from another program."""
    lines = text.split("\n")
    taken = random.choice([*lines, *random.choice(seeds).split("\n")])
    if random.random() < 0.3:
        lines.pop(random.randrange(len(lines)))
    lines.insert(random.randint(0, len(lines)), taken)
    return "\n".join(lines)


def _indent(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A line with other white space before it."""
    lines = text.split("\n")
    at = random.randrange(len(lines))
    lines[at] = random.choice(("", " ", "  ", "\t", "        ")) + lines[at].strip()
    return "\n".join(lines)


def _repeat(random: Random, text: str, seeds: Sequence[str]) -> str:
    """A stretch many times over: deep nesting, long chains."""
    start, end = _span(random, text, 12)
    return text[:end] + text[start:end] * random.choice((2, 10, 300)) + text[end:]


def _number(random: Random, text: str, seeds: Sequence[str]) -> str:
    """Another number, such as a size that does not fit."""
    places = list(re.finditer(r"\d+", text))
    if not places:
        return text
    place = random.choice(places)
    other = random.choice(("0", "1", "-1", "3", "7", "64", "1000003", str(2**63), "1e308", "0.5"))
    return text[: place.start()] + other + text[place.end() :]


_MUTATIONS: tuple[Mutation, ...] = (
    *(_replace, _scramble, _delete, _cut, _exchange_words, _exchange_words, _exchange_words),
    *(_move_line, _indent, _repeat, _number, _number),
)
