"""The emitted Python module: text that a person would have written, and that runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fusegen.compiler.specialisation import Specialisation
from fusegen.errors import FusegenError
from fusegen.frontend import Source
from tests.modules import load

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.fuse"))
BATCH_NORM = """\
# A norm whose description has a \\ and \"\"\" in it.
model Norm(eps=0.001):
    input x: [n, 4]
    input index: int64[n]
    bn = BatchNorm1d(4, eps=eps)
    return bn(x), index + 1
"""


def text_of(source: Source, **arguments: int) -> str:
    return Specialisation.of(source, None, arguments).python_source("cuda", None)


def lint(text: str, *command: str) -> str:
    """What ruff says about a text."""
    program = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "100", "-"]
    return subprocess.run(program, input=text, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_text_is_clean(path: Path) -> None:
    text = text_of(Source.read(path))
    assert lint(text, "check", "--quiet") == ""
    assert lint(text, "format") == text


def test_reference_reads_like_the_source() -> None:
    text = text_of(
        Source(
            "m.fuse",
            "model M(width=8):\n    input x: [batch, width]\n    gemm = Linear(width, 4)\n"
            "    y = gemm(x) |> relu\n    return y / batch, (y + 1) ** 2\n",
        )
    )
    body = text[text.index("def reference(") : text.index("def _empty_results(")]
    statements = [line for line in body.splitlines() if line]
    assert statements[statements.index("    batch = x.shape[0]") :] == [
        "    batch = x.shape[0]",
        "    gemm = F.linear(x, gemm_weight, gemm_bias)",
        "    y = F.relu(gemm)",
        "    div = y / batch",
        "    add = y + 1.0",
        "    pow = torch.pow(add, 2.0)",
        "    return (",
        "        div,",
        "        pow,",
        "    )",
    ]


def test_batch_norm_has_two_modes_and_survives_odd_text() -> None:
    text = text_of(Source("norm.fuse", BATCH_NORM))
    scope: dict[str, object] = {"__name__": "emitted"}
    exec(compile(text, "emitted", "exec"), scope)
    assert "reference_training" in scope
    assert "self.bn = nn.BatchNorm1d(4, eps=0.001, device=device, dtype=dtype)" in text


def test_fake_results_are_those_of_the_kernels() -> None:
    """In every dtype: shapes, strides and dtypes, batch statistics among them."""
    module = load(BATCH_NORM)()
    scope = sys.modules[type(module).__module__]
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        module.to(dtype).train()
        x, index = torch.randn(3, 4).to(dtype), torch.arange(3)
        module(x, index)
        operator = scope._LOADED["norm_training", dtype]
        arguments = (x, index, module.bn.weight, module.bn.bias)
        for real, fake in zip(
            operator(*arguments), scope._empty_results_training(*arguments), strict=True
        ):
            assert (real.shape, real.stride(), real.dtype) == (
                fake.shape,
                fake.stride(),
                fake.dtype,
            )


def test_error_in_the_source_gives_no_text() -> None:
    with pytest.raises(FusegenError):
        text_of(Source("m.fuse", "model M:\n    input x: [n]\n    return relux(x)\n"))
