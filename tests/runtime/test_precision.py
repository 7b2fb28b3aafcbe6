"""Modules follow PyTorch's setting for float32 matrix products at every call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fusegen.runtime.tensors import float32_matmul_precision
from tests.modules import generated, load

MODEL = """\
model Product:
    input x: [n, 32]
    weight = Parameter([8, 32])
    return linear(x, weight)
"""
# 1 + 2^-12, which TF32 does not have.
FINE = 1 + 2.0**-12
FULL, ROUNDED = 32 * FINE, 32.0


@pytest.fixture(autouse=True)
def restore_the_setting() -> Iterator[None]:
    with float32_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def module() -> Any:
    made = load(MODEL)()
    with torch.no_grad():
        made.weight.fill_(1.0)
    return made


def loaded(module: Any) -> set[str]:
    """The names of the operators in use."""
    return set(generated(module)._LOADED)


def results(module: Any) -> set[float]:
    with torch.no_grad():
        return set(module(torch.full((20, 32), FINE)).flatten().tolist())


@pytest.mark.parametrize(
    ("setting", "expected"), [("highest", FULL), ("high", ROUNDED), ("medium", ROUNDED)]
)
def test_setting_at_the_call_decides(module: Any, setting: str, expected: float) -> None:
    torch.set_float32_matmul_precision(setting)
    assert results(module) == {expected}


def test_older_and_newer_switches(module: Any) -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    assert results(module) == {ROUNDED}
    torch.backends.cuda.matmul.allow_tf32 = False
    assert results(module) == {FULL}
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert results(module) == {ROUNDED}
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert results(module) == {FULL}


def test_a_setting_for_a_while_leaves_the_newer_switch_as_it_was() -> None:
    for setting in ("none", "tf32"):
        torch.backends.cuda.matmul.fp32_precision = setting
        with float32_matmul_precision("highest"):
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
        assert torch.backends.cuda.matmul.fp32_precision == setting


def test_compiled_module_follows_a_change(module: Any) -> None:
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert results(compiled) == {FULL}
    torch.set_float32_matmul_precision("high")
    assert results(compiled) == {ROUNDED}
    torch.set_float32_matmul_precision("highest")
    assert results(compiled) == {FULL}


def test_backward_follows_the_setting_when_it_runs() -> None:
    """As eager's does, whatever the setting was at the forward."""
    module = load(MODEL.replace("[8, 32]", "[12, 32]"))()
    for other, setting, name in (
        ("high", "highest", "product"),
        ("highest", "high", "product_tf32"),
    ):
        torch.set_float32_matmul_precision(other)
        y = module(torch.ones(20, 32))
        torch.set_float32_matmul_precision(setting)
        assert f"{name}_float32" not in generated(module)._DERIVED
        y.sum().backward()
        assert f"{name}_float32" in generated(module)._DERIVED


def test_operator_with_tf32_is_loaded_when_first_needed() -> None:
    made = load(MODEL.replace("[8, 32]", "[10, 32]"))()
    results(made)
    assert loaded(made) == {"product_float32"}
    torch.set_float32_matmul_precision("high")
    results(made)
    results(made.to(torch.float32))
    assert loaded(made) == {
        "product_float32",
        "product_tf32_float32",
    }


def test_no_other_operator_without_float32_products() -> None:
    torch.set_float32_matmul_precision("high")
    made = load("model Plain:\n    input x: [n, 4]\n    return relu(x)\n")()
    made(torch.ones(2, 4))
    assert loaded(made) == {"plain_float32"}
    made = load(MODEL)().bfloat16()
    made(torch.ones(2, 32, dtype=torch.bfloat16))
    assert loaded(made) >= {"product_bfloat16"}
    assert "product_tf32_bfloat16" not in loaded(made)
