"""A hypothesis strategy of models with attention, as source text, and with what is near to it.

A model is drawn in the order in which it computes: sizes, operands, scores, weights, and what
becomes of the result. Each of these is drawn by itself, so that every layout meets every mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fusegen.testing.attention_lines import (
    CONVERTED,
    NEAR,
    OPERANDS,
    OTHERS,
    RESULTS,
    SCORES,
    SOFTMAX,
)
from fusegen.testing.calls import POINTWISE
from fusegen.testing.growing import Program, Value, any_lines, fields, filled
from fusegen.testing.strategies import GREATEST_COUNT

# Sizes that only a call knows. They are drawn in the order of the alphabet, each as large as those
# before it leave room for, so that there are many queries and keys rather than samples.
QUERIES, KEYS, SAMPLES = "queries", "keys", "samples"
COUNTS = ("1", "16", "17", "24", "33", "40", "64", "67", "100", "128", "150")
# A known number of rows that lines of heads leave room for.
SOME_ROWS = 20
WIDTHS = (1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 32, 33, 40, 48, 64, 72, 96, 100, 128)
FEATURES = 24
BATCHES = ((), (SAMPLES,), ("2",), (SAMPLES, "2"), ("2", "3"), ("1", "4"))
HEADS = tuple((batch, heads) for batch in (SAMPLES, "2") for heads in ("1", "2", "3", "4"))
# Only where the program itself names a dtype can it convert weights and be right.
PINNED = ("", "", "", "bfloat16", "float16")


@dataclass(frozen=True)
class Sizes:
    """Those of attention as source text: numbers, or names of what only a call knows. Inputs have
    a dtype of their own, or, where that is empty, the module's."""

    batches: tuple[str, ...]
    queries: str
    keys: str
    depth: int
    columns: int
    dtype: str

    @property
    def scores(self) -> tuple[str, ...]:
        return (*self.batches, self.queries, self.keys)

    @property
    def operands(self) -> tuple[tuple[str, str, int], ...]:
        """Of each operand a name, its rows and its width."""
        return (
            ("q", self.queries, self.depth),
            ("k", self.keys, self.depth),
            ("v", self.keys, self.columns),
        )

    @property
    def are_alike(self) -> bool:
        """Whether one tensor can be all operands."""
        return self.keys == self.queries and self.columns == self.depth

    @property
    def are_small(self) -> bool:
        """Whether scores and operands leave room for some rows."""
        widths = (self.keys, str(self.depth), str(self.columns))
        rows = [_known(size) for size in (self.queries, self.keys)]
        batches = math.prod(map(_known, self.batches))
        known = [batches * max(rows) * _known(width) for width in widths]
        return max(known) <= GREATEST_COUNT

    @property
    def are_small_in_lines(self) -> bool:
        """The same where one line has the parts of queries, keys and values."""
        line = 3 * _known(self.batches[1]) * max(self.depth, self.columns)
        rows = max(_known(self.queries), _known(self.keys), SOME_ROWS)
        return self.are_small and _known(self.batches[0]) * rows * line <= GREATEST_COUNT

    def shape(self, *sizes: str | int) -> str:
        """An input's dtype and shape."""
        return f"{self.dtype}[{', '.join(map(str, sizes))}]"


@st.composite
def attention_sources(draw: DrawFn) -> str:
    """The text of a model `Drawn` with attention or something near to it, with one or two results
    and the symbolic sizes `queries`, `keys` and `samples`."""
    program = Program()
    arranged = draw(st.sampled_from((_apart, _apart, _in_lines)))
    sizes, (q, k, v) = arranged(draw, program)
    program.add(f"scores = {q} @ transpose({k}, -2, -1)")
    score = program.values[-1]
    for number in range(draw(st.integers(0, 3))):
        texts = draw(st.sampled_from((SCORES, SCORES, SCORES, POINTWISE)))
        made = step(draw, program, sizes, texts, score, f"score_{number}")
        score = made if made.type.dtype.is_float else score  # of truth values there is no softmax
    near = (*NEAR, *CONVERTED) if sizes.dtype else NEAR
    texts = draw(st.sampled_from((SOFTMAX, SOFTMAX, SOFTMAX, SOFTMAX, near)))
    weight = step(draw, program, sizes, texts, score, "weight")
    program.add(f"mixed = {weight.name} @ {v}")
    result = program.values[-1]
    if len(sizes.batches) == 2 and (arranged is _in_lines or draw(st.booleans())):
        result = _joined(program, sizes)
    for number in range(draw(st.integers(0, 2))):
        result = _finished(draw, program, sizes, result, f"result_{number}")
    returned = [result.name]
    if draw(_sometimes(8)):
        kept = draw(st.sampled_from((score, weight)))
        returned.append(step(draw, program, sizes, OTHERS, kept, "kept").name)
    return program.text(", ".join(returned))


def _sizes(draw: DrawFn, batches: Sequence[tuple[str, ...]]) -> Sizes:
    """Any sizes; queries and keys are often as many as a call says, and keys as many as queries."""
    queries = draw(st.sampled_from((*[QUERIES] * 6, *COUNTS)))
    keys = draw(st.sampled_from((*[KEYS] * 6, *[queries] * 6, *COUNTS)))
    depth = draw(st.sampled_from(WIDTHS))
    columns = draw(st.sampled_from((depth, draw(st.sampled_from(WIDTHS)))))
    return Sizes(
        draw(st.sampled_from(batches)), queries, keys, depth, columns, draw(st.sampled_from(PINNED))
    )


def _known(size: str | int) -> int:
    """A size, 1 if only a call knows it."""
    return int(size) if str(size).isdigit() else 1


Arranged = tuple[Sizes, tuple[str, ...]]


def _apart(draw: DrawFn, program: Program) -> Arranged:
    """Heads as batches: keys and values may have fewer, and any operand may lie the other way
    round or be another one, too; or one tensor is all."""
    sizes = draw(st.composite(_sizes)(BATCHES).filter(lambda sizes: sizes.are_small))
    batches = sizes.batches
    if sizes.are_alike and draw(st.booleans()):
        one = program.take("x", sizes.shape(*batches, sizes.queries, sizes.depth)).name
        return sizes, (one, one, one)
    fewer = ((), tuple("1" for _ in batches), ("1", *batches[1:])[: len(batches)])
    of_keys = draw(st.sampled_from((*[batches] * 6, *fewer)))
    names = []
    for name, rows, width in sizes.operands:
        before = batches if name == "q" else of_keys
        if draw(_sometimes(6)):
            given = _given(draw, program, name, sizes.shape(*before, width, rows))
            found = f"{name}_turned"
            program.add(f"{found} = transpose({given}, -2, -1)")
        else:
            found = _given(draw, program, name, sizes.shape(*before, rows, width))
        names.append(_made(draw, program, sizes, found, f"{name}_made"))
    return sizes, tuple(names)


def _in_lines(draw: DrawFn, program: Program) -> Arranged:
    """Heads as neighbours in lines; keys and values may have a single one."""
    sizes = draw(st.composite(_sizes)(HEADS).filter(lambda sizes: sizes.are_small_in_lines))
    batch, heads = sizes.batches
    of_keys = draw(st.sampled_from((heads, heads, "1")))
    are_parts = sizes.are_alike and of_keys == heads
    ways = (_input, _part, _projection) if are_parts else (_input, _projection)
    made = draw(st.sampled_from(ways))
    names = []
    for name, rows, width in sizes.operands:
        count = heads if name == "q" else of_keys
        line = made(draw, program, sizes, name, (batch, rows), int(count) * width)
        program.add(f"{name}_apart = reshape({line}, ({batch}, {rows}, {count}, {width}))")
        program.add(f"{name}_heads = transpose({name}_apart, 1, 2)")
        names.append(_made(draw, program, sizes, f"{name}_heads", f"{name}_made"))
    return sizes, tuple(names)


def _input(
    draw: DrawFn, program: Program, sizes: Sizes, name: str, rows: tuple[str, str], width: int
) -> str:
    return _given(draw, program, name, sizes.shape(*rows, width))


def _part(
    draw: DrawFn, program: Program, sizes: Sizes, name: str, rows: tuple[str, str], width: int
) -> str:
    if not program.inputs:
        program.take("x", sizes.shape(*rows, 3 * width))
    program.add(f"{name} = chunk(x, 3, dim=-1)[{'qkv'.index(name)}]")
    return name


def _projection(
    draw: DrawFn, program: Program, sizes: Sizes, name: str, rows: tuple[str, str], width: int
) -> str:
    given = _given(draw, program, name, sizes.shape(*rows, FEATURES))
    layer, line = f"{name}_layer", f"{name}_line"
    if sizes.dtype:  # which a layer does not have
        weight = f"{layer} = Parameter([{FEATURES}, {width}], dtype={sizes.dtype})"
        program.add(weight, f"{line} = {given} @ {layer}")
    else:
        program.add(f"{layer} = Linear({FEATURES}, {width})", f"{line} = {layer}({given})")
    return line


def _given(draw: DrawFn, program: Program, name: str, shape: str) -> str:
    """An input of a dtype and shape: a new one, or one that is there."""
    alike = [line.split()[1][:-1] for line in program.inputs if line.endswith(f": {shape}")]
    chosen = draw(st.sampled_from((name, *alike)))
    if chosen not in alike:
        program.take(chosen, shape)
    return chosen


def _made(draw: DrawFn, program: Program, sizes: Sizes, operand: str, name: str) -> str:
    """An operand, or, now and then, what is made of it."""
    if not draw(_sometimes(20)):
        return operand
    return step(draw, program, sizes, OPERANDS, program.value(operand), name).name


def step(
    draw: DrawFn, program: Program, sizes: Sizes, texts: Sequence[str], x: Value, name: str
) -> Value:
    """What one of some texts makes of a value; the value itself where the frontend refuses it."""
    text = draw(st.sampled_from(texts))
    if "like" in fields(text) and not all(str(size).isalnum() for size in x.type.shape):
        return x  # the size of an input is no formula
    given = {
        field: _given(draw, program, f"{name}_{field}", _shape(draw, sizes, x, field))
        for field in sorted(fields(text) & {"mask", "bias", "row", "column", "like"})
    }
    own = {"depth": sizes.depth, "own_dtype": sizes.dtype, **given}
    return program.values[-1] if program.add(*draw(filled(text, x, x, name, own))) else x


def _shape(draw: DrawFn, sizes: Sizes, x: Value, field: str) -> str:
    """Dtype and shape of the input that a field stands for."""
    if field == "row":
        return f"int64[{sizes.queries}, 1]"
    if field == "column":
        return f"int64[{sizes.keys}]"
    if field == "like":
        return sizes.shape(*map(str, x.type.shape))
    kept = [draw(st.sampled_from((size, size, "1"))) for size in sizes.scores]
    broadcast = kept[draw(st.integers(0, len(kept) - 1)) :]
    return f"bool[{', '.join(broadcast)}]" if field == "mask" else sizes.shape(*broadcast)


def _joined(program: Program, sizes: Sizes) -> Value:
    """The heads of a result as neighbours in lines."""
    batch, heads = sizes.batches
    program.add("turned = transpose(mixed, 1, 2)")
    line = int(heads) * sizes.columns
    program.add(f"joined = reshape(turned, ({batch}, {sizes.queries}, {line}))")
    return program.values[-1]


def _finished(draw: DrawFn, program: Program, sizes: Sizes, x: Value, name: str) -> Value:
    """What a line of any kind makes of a result, most often one that likely follows attention."""
    texts = draw(st.sampled_from((RESULTS, RESULTS, POINTWISE, None)))
    if texts is not None:
        return step(draw, program, sizes, texts, x, name)
    return program.values[-1] if program.add(*draw(any_lines([x], name))) else x


def _sometimes(each: int) -> st.SearchStrategy[bool]:
    """True once in so many times."""
    return st.sampled_from((*(False for _ in range(each - 1)), True))
