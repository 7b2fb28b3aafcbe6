"""The wheel carries everything: it is built, unpacked outside the checkout, and used from there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
SHIPPED = ("fusegen", "grammar", "templates")
"""The folders that go into the wheel."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that the checkout stays clean."""
    copy = tmp_path_factory.mktemp("source")
    for folder in SHIPPED:
        shutil.copytree(
            CHECKOUT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        if (CHECKOUT / file).exists():
            shutil.copy(CHECKOUT / file, copy)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", out, copy], check=True, cwd=out)
    (built,) = out.glob("fusegen-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel, for use as PYTHONPATH."""
    folder = tmp_path_factory.mktemp("site packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", folder, wheel], check=True, cwd=folder)
    return folder


def run_installed(installed: Path, *arguments: str) -> str:
    """What `python ARGUMENTS` prints with the installed wheel before the checkout on the path."""
    answer = subprocess.run(
        [sys.executable, *arguments],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def test_wheel_carries_every_file(wheel: Path) -> None:
    carried = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(CHECKOUT).as_posix()
        for folder in SHIPPED
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name[0] != "."
    }
    in_wheel = {name if name.startswith("fusegen/") else f"fusegen/{name}" for name in expected}
    assert sorted(in_wheel - carried) == []


def test_resources_are_read_from_the_wheel(installed: Path) -> None:
    program = (
        "import json, fusegen; from fusegen import resources;"
        "print(json.dumps([fusegen.__file__, list(resources.include_files()),"
        " resources.template_names()]))"
    )
    file, includes, templates = json.loads(run_installed(installed, "-c", program))
    assert Path(file).is_relative_to(installed)
    root = CHECKOUT / "templates"
    assert includes == sorted(
        path.relative_to(root / "include").as_posix()
        for path in (root / "include").rglob("*")
        if path.is_file()
    )
    assert templates == sorted(path.relative_to(root).as_posix() for path in root.rglob("*.j2"))


def test_doctor_runs_from_the_wheel(installed: Path) -> None:
    report = json.loads(run_installed(installed, "-m", "fusegen", "doctor", "--json"))
    assert {finding["name"] for finding in report["findings"]} >= {"torch", "ninja", "cache"}


USE = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from gemm_group_norm_swish_multiply_swish import GemmGroupNormSwishMultiplySwish, reference
module = GemmGroupNormSwishMultiplySwish()
x = torch.randn(3, 16)
error = (module(x) - reference(x, *module.parameters())).abs().max().item()
print(error < 1e-5, "fusegen" in sys.modules)
"""


def test_a_chain_compiles_from_the_wheel(installed: Path) -> None:
    """Outside the checkout, with the grammar, templates and emulator that the wheel carries."""
    chain = installed.parent / "chain.fuse"
    shutil.copy(CHECKOUT / "examples" / "kernelbench" / "l2_88.fuse", chain)
    out = installed.parent / "chain"
    sizes = ("-D", "in_features=16", "-D", "out_features=32", "-D", "num_groups=4")
    command = ("compile", str(chain), "-o", str(out), "--target", "emulate", *sizes)
    assert run_installed(installed, "-m", "fusegen", *command).strip() == str(out)
    assert run_installed(installed, "-c", USE, str(out)).split() == ["True", "False"]
