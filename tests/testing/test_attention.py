"""Random models with attention: what is drawn of it, how much becomes one kernel, and whether the
compiler agrees with PyTorch on it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, topological
from fusegen.passes import pipeline
from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.module import plan_module
from fusegen.testing import attention_lines
from fusegen.testing.attention import Sizes, attention_sources, step
from fusegen.testing.fuzzing import check_program
from fusegen.testing.growing import Program
from fusegen.testing.programs import model_sources
from fusegen.testing.strategies import GREATEST_COUNT

# For each property of a model a text that those with it have.
PROPERTIES = {
    "a mask": r"where\(\w*mask, ",
    "positions": r"_row >= \w*_column",
    "a bias for each query": r"bias: \w*\[(.*, )?(\d\d+|queries), 1\]",
    "a bias for each key": r"bias: \w*\[((1, )+|\d, 1, 1, )?(\d\d+|keys|queries)\]",
    "a bias for each head": r"bias: \w*\[(.*, )?[234], 1, 1\]",
    "a bias for each batch": r"bias: \w*\[(samples|2), 1, 1(, 1)?\]",
    "a cap": "tanh",
    "no batches": r"q: \w*\[\w+, \w+\]",
    "heads in lines": "q_heads = transpose",
    "heads in lines again": "joined = reshape",
    "parts of one input": "chunk",
    "layers for operands": "k_layer = Linear",
    "queries turned": "q_turned = transpose",
    "keys turned": "k_turned = transpose",
    "values turned": "v_turned = transpose",
    "one head for several": r"k: \w*\[(1, \d\d+|keys|\d\d+), ",
    "keys that are values": r"(?!(.|\n)*input v)(.|\n)*@ k\n",
    "one tensor for all": r"scores = x @ transpose\(x, .*(.|\n)* @ x\n",
    "many keys": r"k: \w*\[.*(128|150)",
    "known sizes and others": r"q: \w*\[(.*, )?queries, .*\n    input k: \w*\[(.*, )?\d\d+, ",
    "values wider than keys": r"k: \w*\[.*, [1-9]\](.|\n)*v: \w*\[.*, \d\d+\]",
    "weights that are none": r"weight = (?!softmax)",
    "scores kept": r"return \w+, kept",
    "a residual": r"result_\d = \w+ \+ ",
    "a layer behind it": r"result_\d_layer = Linear",
}


def drawn(sources: st.SearchStrategy[str], count: int) -> set[str]:
    """The texts of so many seeds, each drawn by itself: of one seed most are alike."""
    found: set[str] = set()

    @settings(max_examples=2, phases=(Phase.generate,))  # the first is always the simplest one
    @given(sources)
    def draw(text: str) -> None:
        found.add(text)

    for number in range(count):
        seed(number)(draw)()
    return found


@functools.cache
def models() -> Sequence[str]:
    return sorted(drawn(attention_sources(), 200))


def graph_of(text: str, dtype: DType = DType.FLOAT32) -> Graph:
    return elaborate(parse(Source("drawn.fuse", text)), dtype=dtype).graph


def test_programs_are_right_and_small() -> None:
    for text in models()[::3]:
        graph = graph_of(text)
        assert graph.name == "Drawn" and 1 <= len(graph.outputs) <= 2 and "mixed = " in text
        shapes = [node.shape for node in topological(graph.roots)]
        ones = {s.name: 1 for shape in shapes for size in shape for s in size.symbols()}
        assert ones.keys() <= {"queries", "keys", "samples"}
        counts = [math.prod(size.evaluate(ones) for size in shape) for shape in shapes]
        assert max(counts) <= GREATEST_COUNT


@pytest.mark.parametrize("pattern", PROPERTIES.values(), ids=PROPERTIES)
def test_models_have_everything_near_attention(pattern: str) -> None:
    assert any(re.search(pattern, text) for text in models())


def test_every_sixth_model_has_attention() -> None:
    texts = drawn(model_sources(most_operations=8), 200)
    assert 1 / 8 < sum("    scores = " in text for text in texts) / len(texts) < 1 / 4


def test_some_are_one_kernel_and_some_are_not() -> None:
    plans = [
        plan_module(pipeline.run(graph_of(text, DType.BFLOAT16)), DType.BFLOAT16)
        for text in models()[::3]
    ]
    together = sum(any(isinstance(s, AttentionPlan) for s in plan.steps) for plan in plans)
    assert len(plans) / 4 < together < len(plans) * 3 / 4


TABLES = ("SCORES", "SOFTMAX", "NEAR", "CONVERTED", "OPERANDS", "RESULTS", "OTHERS")


@pytest.mark.parametrize("table", TABLES)
def test_the_frontend_takes_every_line(table: str) -> None:
    refused = []
    sizes = Sizes(("2",), "queries", "keys", 8, 8, "float32" if table == "CONVERTED" else "")

    @settings(max_examples=1)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        for text in getattr(attention_lines, table):
            program = Program()
            x = program.take("x", sizes.shape("2", "queries", 8 if table == "RESULTS" else "keys"))
            if table == "OPERANDS":
                x = program.take("y", sizes.shape("2", "keys", 8))
            if step(data.draw, program, sizes, (text,), x, "v") is x:
                refused.append(text)

    check()
    assert not refused


@settings(max_examples=3)
@given(attention_sources(), st.data())
def test_the_compiler_agrees_with_pytorch(text: str, data: st.DataObject) -> None:
    check_program(text, data, "emulate")
