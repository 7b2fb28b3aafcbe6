"""Verification rejects kernels with a planted fault, and no others."""

from __future__ import annotations

import pytest

from fusegen.testing import verify
from tests.testing.mutants import CHAIN, Mutant, small_cases, under_test, verified_mutant

ROWS = """
model Rows(features=37):
    input x: [batch, features]
    input y: [batch, features]
    return x |> softmax(dim=1), amax(x, dim=1), x - y, x |> var(dim=1)
"""
ATTENTION = """
model Attention(width=8):
    input q: bfloat16[rows, width]
    input k: bfloat16[keys, width]
    input v: bfloat16[keys, width]
    input mask: bool[keys]
    return softmax(where(mask, q @ transpose(k, 0, 1), -inf), dim=1) @ v
"""
REDUCTIONS = "include/fusegen/reduce.cuh"
WEIGHTS = "include/fusegen/attention.cuh"
FRAGMENTS = "include/fusegen/row_fragments.cuh"

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
        r"Tile::multiply\([^;]*;",
        r"\g<0> for (auto& row : accumulators) for (float& sum : row) "
        "sum = convert<float>(convert<bfloat16>(sum));",
    ),
    Mutant("the end of K left out", CHAIN, r"depths, operand_tiles", "depths - 8, operand_tiles"),
    Mutant(
        "eps outside the root", CHAIN, r"fusegen::rsqrt\(add\)", "(fusegen::rsqrt(div) + 1e-05f)"
    ),
    Mutant("a missing barrier", CHAIN, r"__syncthreads\(\);\n", "\n"),
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
    Mutant(
        "a new greatest score forgotten",
        ATTENTION,
        r"results\[i\] \*= scale\[i / 2 % 2\];",
        ";",
        WEIGHTS,
    ),
    Mutant(
        "weights beyond the keys",
        ATTENTION,
        r"own_column\(at\) >= columns_here",
        "own_column(at) > columns_here",
        FRAGMENTS,
    ),
    Mutant(
        "a sum of one lane's weights",
        ATTENTION,
        r"sums\[half\] \+= shuffle_xor\(whole_warp, sums\[half\], 2\);",
        "",
        WEIGHTS,
    ),
    Mutant(
        "keys in another order than values",
        ATTENTION,
        r"(using Values = [^;]*RowOrder::)by_lanes",
        r"\1as_is",
    ),
)


@pytest.mark.parametrize("source", [CHAIN, ROWS, ATTENTION], ids=["chain", "rows", "attention"])
def test_right_kernels_pass(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_cases(monkeypatch)
    result = verify(under_test(source, forward_only=True), examples=60, seconds=600)
    assert result.failure is None and result.checked > 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_faults_are_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    result = verified_mutant(mutant, monkeypatch, forward_only=True)
    assert result.failure is not None, f"{result.checked} cases did not show it"
