"""Verification rejects kernels with a planted fault, and no others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from fusegen.compiler.loading import blueprint
from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.runtime.generated_module import Blueprint
from fusegen.runtime.request import BuildRequest, Target
from fusegen.testing import Subject, subject, verify

CHAIN = """
model Chain(features=24, groups=4):
    input x: [batch, features]
    fc = Linear(features, features)
    norm = GroupNorm(groups, features)
    scale = Parameter([features], init="ones")
    return x |> fc |> gelu |> norm |> mul(scale)
"""
ROWS = """
model Rows(features=37):
    input x: [batch, features]
    input y: [batch, features]
    return x |> softmax(dim=1), amax(x, dim=1), x - y, x |> var(dim=1)
"""
KERNELS, REDUCTIONS = ".cu", "include/fusegen/reduce.cuh"


@dataclass(frozen=True)
class Mutant:
    """A fault planted by exchanging what a pattern matches in a generated file."""

    fault: str
    model: str
    pattern: str
    replacement: str
    file: str = KERNELS

    def planted(self, sources: Mapping[str, str]) -> dict[str, str]:
        """The sources with the fault, which must change something."""
        edited = {
            name: re.sub(self.pattern, self.replacement, text) if name.endswith(self.file) else text
            for name, text in sources.items()
        }
        assert edited != sources, f"nothing in {self.file} matches {self.pattern}"
        return edited


MUTANTS = (
    Mutant(
        "all zeros", CHAIN, r"(y|output\w*)_vector\[element\] = \w+;", r"\1_vector[element] = 0;"
    ),
    Mutant("tanh for the exact gelu", CHAIN, r"gelu_none\(", "gelu_tanh("),
    Mutant("a bias left out", CHAIN, r"\+ fc_bias_value", "+ 0 * fc_bias_value"),
    Mutant(
        "a group short of a column", CHAIN, r"row_end = is_active \? 6", "row_end = is_active ? 5"
    ),
    Mutant("weights of the next group", CHAIN, r"line_group \* 6", "(line_group + 1) % 4 * 6"),
    Mutant("the last tile left out", CHAIN, r"divide_up\(rows, 64\)", "((rows + 32) / 64)"),
    Mutant(
        "bfloat16 where float32 was due",
        CHAIN,
        r"accumulators\[i\]\[j\] \+= step\[i\]\[j\];",
        "accumulators[i][j] = convert<float>(convert<bfloat16>(accumulators[i][j] + step[i][j]));",
    ),
    Mutant("the end of K left out", CHAIN, r"first_depth < depths;", "first_depth + 8 < depths;"),
    Mutant(
        "eps outside the root", CHAIN, r"fusegen::rsqrt\(add\)", "(fusegen::rsqrt(div) + 1e-05f)"
    ),
    Mutant("a missing barrier", CHAIN, r"__syncthreads\(\);  // the next step", "// the next step"),
    Mutant("strides ignored", CHAIN, r"is_contiguous\(x_strides, [^)]*\)", "true"),
    Mutant(
        "variance in one pass",
        ROWS,
        r"squared = deviation \* deviation",
        "squared = (deviation + mean) * (deviation + mean) - mean * mean",
    ),
    Mutant(
        "NaN lost by a maximum", ROWS, r"maximum\(value, x\)", "(value > x ? value : x)", REDUCTIONS
    ),
    Mutant("exponentials not shifted", ROWS, r"- amax;", "- 0 * amax;"),
    Mutant("the biased variance", ROWS, r"/ 36\.0f", "/ 37.0f"),
    Mutant(
        "a row short of a column",
        ROWS,
        r"row_end = is_active \? columns",
        "row_end = is_active ? columns - 1",
    ),
    Mutant("operands exchanged", ROWS, r"= x_value - y_value", "= y_value - x_value"),
    Mutant(
        "a row not written", ROWS, r"lane == 0 && is_active", "lane == 0 && row != 2 && is_active"
    ),
    Mutant(
        "a merge of lanes left out",
        ROWS,
        r"reduce_lanes<32>\(sum_state\)",
        "reduce_lanes<16>(sum_state)",
    ),
)


def verified(source: str) -> Subject:
    return Subject.of(Source("model.fuse", source), target="emulate")


@pytest.mark.parametrize("source", [CHAIN, ROWS], ids=["chain", "rows"])
def test_right_kernels_pass(source: str) -> None:
    result = verify(verified(source), examples=60, seconds=600)
    assert result.failure is None and result.checked > 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_faults_are_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(chosen: Specialisation, target: Target, check: bool) -> Blueprint:
        made = blueprint(chosen, target, check)

        def request(name: str) -> BuildRequest:
            wanted = made.request(name)
            return replace(wanted, sources=mutant.planted(wanted.sources))

        return replace(made, key=f"{made.key} {mutant.fault}", request=request)

    monkeypatch.setattr(subject, "blueprint", planted)
    monkeypatch.setattr("fusegen.testing.verification.first_parting", lambda *_: None)
    result = verify(verified(mutant.model), examples=100, seconds=600, dtypes=["float32"])
    assert result.failure is not None, f"{result.checked} cases did not show it"
