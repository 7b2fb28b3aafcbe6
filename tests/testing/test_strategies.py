"""Drawn cases: their sizes."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusegen.frontend import Source
from fusegen.testing.strategies import GREATEST_COUNT, model_cases
from fusegen.testing.subject import Subject

SQUARE = """\
model Square():
    input x: [n, 24, h, 5]
    rows = reshape(x, [-1, 5])
    return x @ transpose(rows, -2, -1)
"""


@settings(max_examples=30, suppress_health_check=tuple(HealthCheck))
@given(st.data())
def test_results_are_as_small_as_inputs(data: st.DataObject) -> None:
    """A product of a tensor with itself has the square of its rows: 36 million rows long, once."""
    subject = Subject.of(Source("square.fuse", SQUARE), target="emulate")
    sizes = data.draw(model_cases(subject)).sizes
    rows = math.prod((sizes["n"], 24, sizes["h"]))
    assert rows**2 <= GREATEST_COUNT
