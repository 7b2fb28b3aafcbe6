"""Programs that grow line by line: what the frontend refuses is left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.testing import calls
from fusegen.testing.growing import Program, filled

# Types of a pair of values, for which each line that programs are made of is right at least once.
SHAPES = (
    "[n, 6]",
    "[6, 6]",
    "[n, 6, h]",
    "[n, 6, h, 5]",
    "[n, 6, 2, h, 3]",
    "int64[n, 6]",
    "bool[n, 6]",
)


def test_what_training_refuses_is_left_out() -> None:
    program = Program(["input x: [1, 5]"])
    assert not program.add("v_layer = BatchNorm1d(5)", "v = v_layer(x)")
    assert program.add("w_layer = LayerNorm(5)", "w = w_layer(x)")


@pytest.mark.parametrize("group", dict.fromkeys(calls.GROUPS))
def test_every_line_can_be_drawn(group: tuple[str, ...]) -> None:
    """The frontend takes it for some values; what is drawn with a single example is simplest."""
    refused = []

    @settings(max_examples=1)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        refused.extend(text for text in group if not any(_is_right(text, s, data) for s in SHAPES))

    check()
    assert not refused


def _is_right(text: str, shape: str, data: st.DataObject) -> bool:
    program = Program([f"input x: {shape}", f"input y: {shape}"])
    x, y = (program.value(name) for name in ("x", "y"))
    return program.add(*data.draw(filled(text, x, y, "v")))
