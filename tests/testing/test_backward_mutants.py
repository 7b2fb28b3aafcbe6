"""Verification rejects a backward with a planted fault, and no others."""

from __future__ import annotations

import pytest

from fusegen.testing import Direction, verify
from tests.testing.mutants import CHAIN, Mutant, small_cases, under_test, verified_mutant

ROWS = """
model Rows(features=37):
    input x: [batch, features]
    input y: [batch, features]
    norm = LayerNorm(features)
    z = relu(x) + y * y - x * y
    return z |> norm, softmax(x, dim=1), amax(y, dim=1)
"""
# Where no row is normalised, a NaN does not make the whole row's gradients NaN.
RELUS = """
model Relus(features=37):
    input x: [batch, features]
    input y: [batch, features]
    return relu(x) + relu(y)
"""
# Nothing but rounding errors comes between the rows and their statistics.
NORMED = """
model Normed(features=37):
    input x: [batch, features]
    norm = LayerNorm(features)
    return x |> norm
"""
# Rows of whole vectors, which come ahead.
WIDE = NORMED.replace("37", "48")
# Its gradients are made of the same products again, two of them in each of two kernels.
ATTENTION = """
model Attention(width=8):
    input q: bfloat16[rows, width]
    input k: bfloat16[keys, width]
    input v: bfloat16[keys, width]
    input mask: bool[rows, keys]
    return softmax(where(mask, q @ transpose(k, 0, 1), -inf), dim=1) @ v
"""
BACKWARD, BINDING = "_backward_float32.cu", "_backward_float32_binding.cpp"
FORWARD = "_forward_float32.cu"  # which saves something for the backward
# With \1 for x, the tanh form's part below x, and the slope of what that is the sigmoid of.
TANH_BELOW = r"fusegen::sigmoid(1.5957691f * \1 * (1 + 0.044715f * \1 * \1))"
TANH_INNER_SLOPE = r"1.5957691f * (1 + 0.134145f * \1 * \1)"
MUTANTS = (
    Mutant(
        "all zeros",
        CHAIN,
        r"(gradient_of_x\[[^;]*\]) = accumulators\[i\]\[j\]",
        r"\1 = 0",
        BACKWARD,
    ),
    Mutant(
        "the slope of the tanh form of gelu",
        CHAIN,
        r"fusegen::gelu_slope\(([^()]+)\)",
        rf"({TANH_BELOW} + \1 * {TANH_BELOW} * (1 - {TANH_BELOW}) * {TANH_INNER_SLOPE})",
        BACKWARD,
    ),
    Mutant(
        "a bias gradient left out",
        CHAIN,
        r"(gradient_of_fc_bias\[row\]) = [^;]+",
        r"\1 = 0",
        BACKWARD,
    ),
    Mutant(
        "a bias gradient not written", CHAIN, r"gradient_of_fc_bias\[row\] = [^;]+", "", BACKWARD
    ),
    Mutant(
        "the last tile of a weight's gradient left out",
        CHAIN,
        r"divide_up\(columns, 64\)",
        "(columns / 64)",
        BACKWARD,
    ),
    Mutant("half of a long sum left out", CHAIN, r"column >= row_end", r"\g<0> / 2", BACKWARD),
    Mutant(
        "the end of K left out",
        CHAIN,
        r"(depths|depth_end), operand_tiles",
        r"\1 - 8, operand_tiles",
        BACKWARD,
    ),
    Mutant(
        "weights of the next group", CHAIN, r"\(row % 4\) \* 6", "((row + 1) % 4) * 6", BACKWARD
    ),
    Mutant(
        "a group short of a column",
        CHAIN,
        r"row_end = is_active \? columns",
        r"\g<0> - 1",
        BACKWARD,
    ),
    Mutant("a group's size off by one", CHAIN, r"/ 6\.0f", "/ 5.0f", BACKWARD),
    Mutant("the mean of the gradient left out", CHAIN, r"- div;", "- 0 * div;", BACKWARD),
    Mutant("its covariance left out", CHAIN, r"(sub_3 = sub_2) - mul_\d+;", r"\1;", BACKWARD),
    Mutant(
        "not divided by the deviation", CHAIN, r"group_norm_2_value \* sub_3", "sub_3", BACKWARD
    ),
    Mutant(
        "bfloat16 where float32 was due",
        CHAIN,
        r"Tile::multiply\([^;]*;",
        r"\g<0> for (auto& row : accumulators) for (float& sum : row) "
        "sum = convert<float>(convert<bfloat16>(sum));",
        BACKWARD,
    ),
    Mutant(
        "a missing barrier",
        CHAIN,
        r"__syncthreads\(\);\n",
        "\n",
        FORWARD,
    ),
    Mutant(
        "strides of the gradient ignored",
        CHAIN,
        r"is_contiguous\(gradient_of_output_strides, [^)]*\)",
        "true",
        BACKWARD,
    ),
    Mutant(
        "a saved variance in one pass",
        NORMED,
        r"squared = deviation \* deviation",
        "squared = (deviation + mean) * (deviation + mean) - mean * mean",
        FORWARD,
    ),
    Mutant("a wrong wanted mask", CHAIN, r"wanted & 0x3a", "wanted & 0x2", BINDING),
    Mutant("an unmasked relu", ROWS, r"le \? 0\.0f : (\w+)", r"\1", BACKWARD),
    Mutant("a relu with slope 1 at 0", ROWS, r"<= 0\.0f", "< 0.0f", BACKWARD),
    Mutant("NaN masked by a relu", RELUS, r"(le\w* = )(.*) <= 0\.0f", r"\1!(\2 > 0.0f)", BACKWARD),
    Mutant(
        "one of two uses forgotten",
        ROWS,
        r"(gradient_of_y_2 = )\w+ [-+] (\w+);",
        r"\1\2;",
        BACKWARD,
    ),
    Mutant("the sign of a subtraction", ROWS, r"neg = -", "neg = ", BACKWARD),
    Mutant(
        "gradients exchanged",
        ROWS,
        r"gradient_of_(x|y)\.mutable_data_ptr",
        lambda found: f"gradient_of_{'yx'[found[1] == 'y']}.mutable_data_ptr",
        BINDING,
    ),
    Mutant("ties not shared", ROWS, r"(= gradient_of_output_2_value) / \w+", r"\1", BACKWARD),
    Mutant("a softmax without its row's sum", ROWS, r"- sum;", "- 0 * sum;", BACKWARD),
    Mutant(
        "a merge of lanes left out",
        ROWS,
        r"reduce_lanes<32>\(sum_state\)",
        "reduce_lanes<16>(sum_state)",
        BACKWARD,
    ),
    Mutant(
        "rows of a block left out of sums over rows",
        NORMED,
        r"store_added<\d+",
        "store_added<1",
        BACKWARD,
    ),
    Mutant(
        "another row copied ahead",
        WIDE,
        r"wanted < rows \? wanted",
        "wanted < rows ? wanted / 2 * 2",
        BACKWARD,
    ),
    Mutant(
        "an incoming gradient overwritten",
        ROWS,
        r"store_vector\(gradient_of_x \+",
        r"const_cast<float*>(gradient_of_output_2)[0] = 0; \g<0>",
        BACKWARD,
    ),
    Mutant(
        "weights' gradients without their row's sum",
        ATTENTION,
        r"- (sum\w*_(?:value|shared));",
        r"- 0 * \1;",
        BACKWARD,
    ),
    Mutant(
        "weights by another greatest score",
        ATTENTION,
        r"(= (?:to|widen)\w* - softmax\w*);",
        r"\1 - 0.5f;",
        BACKWARD,
    ),
    Mutant(
        "weights multiplied that are gradients",
        ATTENTION,
        r"\(sums_1, operands\[1\],",
        "(sums_1, operands[0],",
        BACKWARD,
    ),
    Mutant(
        "tiles that nobody waited for",
        ATTENTION,
        r"products\.await_tiles\(\);",
        "cp_async_wait<0>();",
        BACKWARD,
    ),
    Mutant(
        "a total saved for its reciprocal", ATTENTION, r"1 / weight_total", "weight_total", FORWARD
    ),
)


@pytest.mark.parametrize("source", [CHAIN, ROWS, ATTENTION], ids=["chain", "rows", "attention"])
def test_right_kernels_pass(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_cases(monkeypatch)
    result = verify(under_test(source, forward_only=False), examples=20, seconds=600)
    assert result.failure is None and result.checked > 10
    assert result.why_forward_only is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_faults_are_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    result = verified_mutant(mutant, monkeypatch, forward_only=False)
    assert result.failure is not None, f"{result.checked} cases did not show it"
    assert result.failure.finding.direction is Direction.BACKWARD
