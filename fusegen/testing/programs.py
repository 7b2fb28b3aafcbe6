"""Hypothesis strategies of whole models, as source text: everything the language has, mixed."""

from __future__ import annotations

from hypothesis import strategies as st

from fusegen.testing.attention import attention_sources
from fusegen.testing.growing import WIDTHS, Program, any_lines

SHAPES = ("[n, {}]", "[n, {}, h, 5]", "[n, {}, h]", "[n, {}, 2, h, 3]")
# Lines drawn one by one hardly ever make attention, which has kernels of its own.
HAS_ATTENTION = (*(False for _ in range(5)), True)


@st.composite
def model_sources(draw: st.DrawFn, *, most_operations: int = 30) -> str:
    """The text of a model `Drawn` with one to three results: of up to `most_operations` operations
    and the symbolic sizes `n` and, for images, `h`, or, every sixth, with attention."""
    if draw(st.sampled_from(HAS_ATTENTION)):
        return draw(attention_sources())
    width = draw(st.sampled_from(WIDTHS))
    shape = draw(st.sampled_from((*SHAPES, *SHAPES[:2]))).format(width)
    third = draw(st.sampled_from(("", "", f"[{width}, 5]", "int64[n, 1]", "bool[n, 1]", "[]")))
    program = Program()
    inputs = [program.take(name, shape) for name in ("x", "y")]
    if third:
        inputs.append(program.take("z", third))
    few = draw(st.booleans())  # faults of few operations are found sooner in small models
    count = draw(st.integers(1, min(most_operations, 6) if few else most_operations))
    for number in range(count):
        program.add(*draw(any_lines(program.values, f"v{number}")))
    computed = [value.name for value in program.values[len(inputs) :]] or ["x + y"]
    others = draw(st.lists(st.sampled_from(computed), max_size=2, unique=True))
    return program.text(", ".join(dict.fromkeys([computed[-1], *others])))
