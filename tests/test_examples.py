"""The examples do what they say, and the five chains are as accurate as PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fusegen import compiler

EXAMPLES = Path(__file__).parents[1] / "examples"

CHAINS = {
    "kernelbench/l2_21": (
        {"in_channels": 3, "out_channels": 8, "num_groups": 4},
        {"batch": 2, "height": 9, "width": 8},
    ),
    "kernelbench/l2_62": (
        {"input_size": 40, "hidden_size": 96, "num_groups": 6},
        {"batch": 5},
    ),
    "kernelbench/l2_64": ({"in_features": 40, "out_features": 136}, {"batch": 5}),
    "kernelbench/l2_88": (
        {"in_features": 40, "out_features": 96, "num_groups": 6},
        {"batch": 5},
    ),
    "kernelbench/l2_94": (
        {"in_features": 40, "out_features": 96, "num_groups": 6},
        {"batch": 5},
    ),
    "row_norm": ({"features": 72}, {"rows": 5}),
    "mlp_residual": ({"features": 24, "expansion": 2}, {"batch": 5}),
    "digits_mlp": ({"hidden": 24}, {"batch": 5}),
    "transformer_block": (
        {"width": 24, "heads": 3, "hidden": 40},
        {"batch": 2, "time": 9},
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_in_the_emulator(name: str, dtype: str) -> None:
    """Errors against float64 at most twice those of PyTorch in the same dtype."""
    arguments, sizes = CHAINS[name]
    found = compiler.run(
        compiler.read_source(str(EXAMPLES / f"{name}.fuse")),
        arguments=arguments,
        sizes=sizes,
        dtype=dtype,
        target="emulate",
    )
    assert found.agrees, found.as_text()


def run(script: str, *arguments: str | Path) -> str:
    answer = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_demo() -> None:
    text = run("demo.py")
    assert "matrix product" in text
    assert text.count("agrees") == 2
    assert "DIFFERS" not in text


def test_use_from_python() -> None:
    lines = run("use_from_python.py").splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("step")]
    assert losses == sorted(losses, reverse=True) and len(losses) == 5
    assert float(lines[-1].rpartition(" ")[2]) < 1e-5


def last_number(line: str) -> float:
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("target", "steps", "noise", "learnt", "options"),
    # PyTorch's own operations give the same bits. The kernels' losses differ in the last bits of
    # a float32 loss of 2.3, and a step passes on somewhat more than it was given. Under autocast
    # the logits are bfloat16, of which a unit is 1/64 of the greatest, about 3.
    [
        ("cuda", 200, 0.0, 90, ()),
        ("cuda", 200, 0.0, 85, ("--autocast", "bfloat16")),
        ("emulate", 40, 1e-4, 80, ()),
        ("emulate", 15, 0.03, 40, ("--autocast", "bfloat16")),
    ],
    ids=["reference", "reference-autocast", "kernels", "kernels-autocast"],
)
def test_train_mlp(
    tmp_path: Path,
    target: str,
    steps: int,
    noise: float,
    learnt: float,
    options: tuple[str, ...],
) -> None:
    """Both curves coincide, and the classifier learns."""
    picture = tmp_path / "curves.png"
    text = run(
        "train_mlp.py", "--target", target, "--steps", str(steps), "--plot", picture, *options
    ).splitlines()
    assert [line.partition(":")[0] for line in text[:2]] == ["generated", "plain"]
    for line in text[:2]:
        assert last_number(line.rstrip("%")) > learnt
    assert last_number(text[2]) <= noise
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("target", "noise"), [("cuda", 0.0), ("emulate", 1e-4)])
def test_finetune(target: str, noise: float) -> None:
    before, after, difference = run("finetune.py", "--target", target, "--steps", "20").splitlines()
    assert last_number(after) < last_number(before)
    assert last_number(difference) <= noise
