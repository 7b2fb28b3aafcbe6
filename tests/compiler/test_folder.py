"""`fusegen compile`: a folder that is complete, needs no fusegen, or is not there at all."""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fusegen
from fusegen.cli.main import main
from fusegen.errors import FusegenError
from fusegen.runtime.builder import SCRIPT, SCRIPT_HEAD

MODEL = """\
model Scale(width=4):
    input x: [n, width]
    weight = Parameter([width])
    return relu(x * weight)
"""
USE = """
import sys, torch, scale
module = scale.Scale()
x = torch.arange(8.0).view(2, 4) - 3
assert torch.equal(module(x), torch.relu(x * module.weight))
module(x).sum().backward()
assert torch.equal(module.weight.grad, ((x * module.weight > 0) * x).sum(0)) and scale._DERIVED
assert module.bfloat16()(x.bfloat16()).dtype is torch.bfloat16
assert len(scale._LOADED) == 2 and "fusegen" not in sys.modules
try:
    module.half()(x.half())
except RuntimeError as error:
    print(error)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "scale.fuse"
    path.write_text(MODEL)
    return path


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_folder_runs_without_fusegen(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fusegen.compile(model, out, target="emulate", dtypes=("float32", "bfloat16"))
    assert files_in(out) >= {"scale_float32.so", "scale_bfloat16.so", "scale.py", "plan.json"}
    environment = {**os.environ, "PYTHONPATH": str(out)}
    answer = subprocess.run(
        [sys.executable, "-c", USE], cwd=out, env=environment, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == (
        "scale_float16 was not built, only scale_float32, scale_backward_float32, scale_bfloat16, "
        "scale_backward_bfloat16; build it with `fusegen "
        "compile scale.fuse --target emulate --dtype float32 --dtype bfloat16 --dtype float16`\n"
    )


def test_the_command_in_a_folder_is_one_for_a_shell(tmp_path: Path) -> None:
    path = tmp_path / 'my "x" {y}.fuse'
    path.write_text(MODEL)
    fusegen.compile(path, tmp_path / "out", target="emulate", dtypes=("float32",), emit_only=True)
    text = (tmp_path / "out" / "scale.py").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("_COMMAND = "))
    command = shlex.split(ast.literal_eval(line.removeprefix("_COMMAND = ")))
    assert command == [
        "fusegen",
        "compile",
        path.name,
        *["--target", "emulate", "--dtype", "float32"],
    ]


PRODUCT = """\
model Product:
    input x: [n, 4]
    weight = Parameter([2, 4])
    return linear(x, weight)
"""
USE_PRODUCT = """
import torch, product
torch.set_float32_matmul_precision("high")
module = product.Product()
module(torch.ones(3, 4))
print(*product._LOADED)
"""


@pytest.mark.parametrize(
    ("precisions", "loaded"), [((), "product_float32"), (("medium",), "product_tf32_float32")]
)
def test_a_setting_that_was_not_built_has_full_precision(
    precisions: tuple[str, ...], loaded: str, tmp_path: Path
) -> None:
    model, out = tmp_path / "product.fuse", tmp_path / "out"
    model.write_text(PRODUCT)
    fusegen.compile(model, out, target="emulate", precisions=precisions)
    command = [sys.executable, "-c", USE_PRODUCT]
    answer = subprocess.run(command, cwd=out, capture_output=True, text=True)
    assert answer.stdout == f"{loaded}\n", answer.stderr


USE_AUTOCAST = """
import torch, scale
module = scale.Scale()
x = torch.ones(2, 4, dtype=torch.bfloat16)
with torch.autocast("cpu", dtype=torch.bfloat16):
    module(x).sum().backward()
assert module.weight.grad.dtype is torch.float32
print(*scale._DERIVED)
with torch.autocast("cpu", dtype=torch.float16):
    module(x.half())
assert len(scale._DERIVED) == 1
"""


def test_autocast_to_the_dtypes_that_were_built(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fusegen.compile(model, out, target="emulate", autocasts=("bfloat16",))
    command = [sys.executable, "-c", USE_AUTOCAST]
    answer = subprocess.run(command, cwd=out, capture_output=True, text=True)
    assert answer.stdout == "scale_autocast_bfloat16_in0\n", answer.stderr


def test_autocast_that_cannot_be_built(model: Path, tmp_path: Path) -> None:
    refused = {"autocasts": ("float32",)}, {"autocasts": ("float16",), "inference_only": True}
    for options, text in zip(refused, ("no autocast to 'float32'", "together only"), strict=True):
        with pytest.raises(FusegenError, match=text):
            fusegen.compile(model, tmp_path / "out", emit_only=True, **options)
    model.write_text("model Whole():\n    input x: [n]\n    return x // 2\n")
    with pytest.raises(FusegenError, match="no kernels under autocast"):
        fusegen.compile(model, tmp_path / "out", emit_only=True, autocasts=("float16",))
    assert not (tmp_path / "out").exists()


def test_emit_only_needs_no_toolchain(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("FUSEGEN_NVCC", "FUSEGEN_CXX"):
        monkeypatch.setenv(name, "/nowhere/compiler")
    out = tmp_path / "out"
    assert main(["compile", str(model), "-o", str(out), "--emit-only", "-D", "width=5"]) == 0
    assert files_in(out) == {
        "build.ninja",
        "build.sh",
        "include",
        "plan.json",
        "scale.py",
        "scale_backward_float32.cu",
        "scale_backward_float32_binding.cpp",
        "scale_float32.cu",
        "scale_float32_binding.cpp",
    }
    assert "width=5" in (out / "scale_float32.cu").read_text()


def test_emit_only_removes_a_library_of_other_sources(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("scale_float32.so", "another.so"):
        (out / name).touch()
    fusegen.compile(model, out, emit_only=True)
    assert "scale_float32.so" not in files_in(out) and "another.so" in files_in(out)


def test_what_an_earlier_compilation_wrote_goes(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fusegen.compile(model, out, dtypes=("float16", "bfloat16"), emit_only=True)
    for library in ("scale_float16.so", "scale_float64.so"):
        (out / library).write_text("as a build leaves it")
    for own in ("notes.txt", "my_binding.cpp", "my.cu"):
        (out / own).write_text("the user's")
    fusegen.compile(model, out, target="emulate", dtypes=("bfloat16",), emit_only=True)
    assert files_in(out) == {
        *("scale_bfloat16.cu", "scale_bfloat16_binding.cpp"),
        *("scale_backward_bfloat16.cu", "scale_backward_bfloat16_binding.cpp"),
        *("scale.py", "plan.json", "build.ninja", "include", "scale_float64.so"),
        *("notes.txt", "my_binding.cpp", "my.cu"),
    }


def test_what_is_the_users_stays(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fusegen.compile(model, out, target="emulate", emit_only=True)
    for end in (".cu", "_binding.cpp"):  # a copy that was edited
        shutil.copy(out / f"scale_float32{end}", out / f"mine{end}")
    (out / "build.sh").write_text("echo mine")
    fusegen.compile(model, out, target="emulate", dtypes=("float16",), emit_only=True)
    assert files_in(out) >= {"mine.cu", "mine_binding.cpp", "scale_float16.cu", "build.sh"}
    assert "scale_float32.cu" not in files_in(out)
    with pytest.raises(FusegenError, match=r"build\.sh' was not written by fusegen"):
        fusegen.compile(model, out, emit_only=True)
    assert (out / "build.sh").read_text() == "echo mine"


def test_a_script_of_another_version_is_known_by_its_head(model: Path, tmp_path: Path) -> None:
    script = tmp_path / "build.sh"
    script.write_text(SCRIPT_HEAD + "echo older\n")
    fusegen.compile(model, tmp_path, emit_only=True)
    assert script.read_text() == SCRIPT


def test_plan(model: Path, tmp_path: Path) -> None:
    fusegen.compile(model, tmp_path / "out", emit_only=True)
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    (kernel,) = plan["kernels"]
    assert plan["library_calls"] == []
    assert plan["sizes"] == {"n": 1024}
    assert set(kernel) == {
        "name", "kind", "ops", "reads_bytes", "writes_bytes", "flops", "floor_us", "why",
        "forms",
    }  # fmt: skip
    assert kernel["kind"] == "elementwise"
    assert kernel["writes_bytes"] == 1024 * 4 * 4  # of 4 columns


def test_plans_of_several_dtypes(model: Path, tmp_path: Path) -> None:
    fusegen.compile(model, tmp_path / "out", dtypes=("float32", "float64"), emit_only=True)
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    written = {n: p["kernels"][0]["writes_bytes"] for n, p in plan["variants"].items()}
    assert written["scale_float32"] == 1024 * 4 * 4
    assert written["scale_float64"] == 1024 * 4 * 8
    assert written.keys() >= {"scale_backward_float32", "scale_backward_float64"}


def test_a_folder_of_another_model_is_left_alone(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "out", tmp_path / "other.fuse"
    other.write_text(MODEL.replace("Scale", "Other"))
    assert main(["compile", str(model), "-o", str(out), "--emit-only"]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["compile", str(other), "-o", str(out), "--emit-only"]) == 1
    assert "holds another model's module" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert main(["compile", str(model), "-o", str(out), "--emit-only"]) == 0


def test_a_module_of_the_users_own_is_left_alone(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plain module may well stand beside the source, and have its name."""
    plain = model.with_suffix(".py")
    plain.write_text("import torch\n")
    assert main(["compile", str(model), "-o", str(model.parent), "--emit-only"]) == 1
    assert "scale.py' was not written by fusegen" in capsys.readouterr().err
    assert plain.read_text() == "import torch\n"
    assert files_in(model.parent) == {"scale.fuse", "scale.py"}


def test_a_module_that_cannot_be_read(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, read = model.with_suffix(".py"), Path.read_text
    plain.write_text("import torch\n")

    def refused(path: Path, *arguments: Any, **options: Any) -> str:
        if path == plain:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refused)
    assert main(["compile", str(model), "-o", str(model.parent), "--emit-only"]) == 1
    assert "cannot be written: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (MODEL.replace("relu", "relux"), [], "relux"),
        (MODEL, ["-D", "with=3"], "width"),
        (MODEL, ["--arch", "hopper"], "hopper"),
        (MODEL, ["--target", "emulate", "--arch", "sm_80"], "no GPU architectures"),
        ("", [], "is empty"),
    ],
)
def test_an_error_leaves_nothing(
    text: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "scale.fuse"
    model.write_text(text)
    assert main(["compile", str(model), "-o", str(tmp_path / "out"), *options]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err
    assert files_in(tmp_path) == {"scale.fuse"}


def test_a_failed_build_leaves_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSEGEN_CXX", "/nowhere/g++")
    assert main(["compile", str(model), "-o", str(tmp_path / "out"), "--target", "emulate"]) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(model), "-o", str(model / "out"), "--emit-only"]) == 1
    assert "cannot be written: Not a directory" in capsys.readouterr().err


INFERENCE = """
import torch, scale
module = scale.Scale()
x = torch.arange(8.0).view(2, 4) - 3
module(x).sum().backward()
assert torch.equal(module.weight.grad, ((x * module.weight > 0) * x).sum(0))
"""


def test_folder_for_inference_only(model: Path, tmp_path: Path) -> None:
    """No operators for training; PyTorch's own operations differentiate."""
    out = tmp_path / "out"
    options = ["-o", str(out), "--target", "emulate", "--inference-only"]
    assert main(["compile", str(model), *options]) == 0
    assert not [name for name in files_in(out) if "backward" in name or "forward" in name]
    environment = {**os.environ, "PYTHONPATH": str(out)}
    answer = subprocess.run(
        [sys.executable, "-c", INFERENCE], cwd=out, env=environment, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


BRANCHES = """\
model Branches:
    input x: [n]
    return 2 * x, sqrt(x)
"""
USE_BOTH = """
import branches, fusegen, torch
for model in (branches.Branches, fusegen.load("../branches.fuse", target="emulate")):
    x = torch.zeros(2, requires_grad=True)
    first, _ = model()(x)
    first.sum().backward()
    kernels = model.with_arguments({}) if hasattr(model, "with_arguments") else model
    print(x.grad.tolist(), bool(kernels.forward.__globals__.get("_DERIVED")))
"""


@pytest.mark.parametrize("inference_only", [False, True])
def test_a_folders_module_beside_a_loaded_one(inference_only: bool, tmp_path: Path) -> None:
    """In one process: the kernels are the same, and gradients of unused outputs are not."""
    model, out = tmp_path / "branches.fuse", tmp_path / "out"
    model.write_text(BRANCHES)
    fusegen.compile(model, out, target="emulate", inference_only=inference_only)
    command = [sys.executable, "-c", USE_BOTH]
    answer = subprocess.run(command, cwd=out, capture_output=True, text=True)
    of_the_folder = "[2.0, 2.0] False" if inference_only else "[nan, nan] True"
    assert answer.stdout == f"{of_the_folder}\n[2.0, 2.0] True\n", answer.stderr
