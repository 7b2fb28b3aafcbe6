"""The emitted Python module: text that a person would have written, and that runs."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fusegen.codegen.python_module import Libraries
from fusegen.compiler.specialisation import Specialisation
from fusegen.errors import FusegenError
from fusegen.frontend import Source
from fusegen.frontend.python_names import is_module_global
from fusegen.ops.autocast import Device
from fusegen.runtime.request import Target
from tests.modules import load, operators

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
    chosen = Specialisation.of(source, None, arguments)
    return chosen.python_source("cuda", None, autocasts=chosen.autocasts(Device.CUDA)[:1])


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
        arguments = (x, index, module.bn.weight, module.bn.bias)
        operator = operators(module, x, index, mode="_TRAINING").no_grad
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


def test_no_class_hides_what_the_text_uses() -> None:
    """All that the text of a folder and that of a loaded module define, import or take from Python
    is refused as a model's name."""
    chosen = Specialisation.of(Source("norm.fuse", BATCH_NORM), None, {})
    libraries = Libraries({"norm_float32": "norm"}, "fusegen compile", "build it", "emulator.so")
    autocasts = chosen.autocasts(Device.CUDA)
    assert len(autocasts) == 4
    for text in (
        chosen.python_source("cpu", libraries),
        chosen.python_source("cuda", None, autocasts=autocasts),
        text_of(Source("norm.fuse", BATCH_NORM.replace("int64[n]", "int64[]"))),
    ):
        used = _defined(ast.parse(text)) | _builtins(ast.parse(text))
        assert all(map(is_module_global, used - {"Norm", "annotations"}))


def _defined(module: ast.Module) -> set[str]:
    """The names that statements of the module bind."""
    found: set[str] = set()
    for statement in module.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).split(".")[0] for alias in statement.names)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            written = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            found.update(node.id for node in written if isinstance(node.ctx, ast.Store))
    return found


def _builtins(module: ast.Module) -> set[str]:
    """Python's own functions and types in the module's text."""
    names = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    return names & set(dir(builtins))


@pytest.mark.parametrize("size", ["F", "torch", "class", "float"])
def test_a_size_may_have_a_name_that_the_text_uses(size: str) -> None:
    module = load(
        f"model M():\n    input x: [batch, {size}]\n"
        f"    return reshape(relu(x), [batch * {size}]) / {size}, sum(x, dim=0) * -inf\n",
        Target.CUDA,
    )()
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    flat, total = module(x)
    assert torch.equal(flat, x.flatten() / 3)
    assert torch.equal(total, torch.full((3,), float("-inf")))
    scope = sys.modules[type(module).__module__]
    assert [tuple(t.shape) for t in scope._empty_results(x)] == [(6,), (3,)]


def test_inputs_keep_their_names_beside_those_of_the_text() -> None:
    module = load(
        "model M():\n    input QUERY: [n]\n    input _run: [n]\n    input _unused: [n]\n"
        "    return QUERY - _run\n",
        Target.CUDA,
    )()
    one = torch.ones(3)
    assert torch.equal(module(3 * one, one, _unused=one), 2 * one)
    assert torch.equal(module(QUERY=3 * one, run=one, _unused=one), 2 * one)
