"""torch's headers and libraries are found without importing it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.torch_install import find_torch, read_install


def package(root: Path, version: str, cuda: str | None, headers: bool = True) -> Path:
    """A folder that looks like an installed torch."""
    root.mkdir()
    (root / "version.py").write_text(
        "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n"
        f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda!r}\n"
    )
    if headers:
        stable = root / "include" / "torch" / "csrc" / "stable"
        stable.mkdir(parents=True)
        (stable / "library.h").touch()
    return root


def test_finds_what_import_torch_loads() -> None:
    found = find_torch()
    assert found.version == str(torch.__version__)
    assert found.cuda == torch.version.cuda
    assert found.library_folder == Path(torch.__file__).parent / "lib"
    assert (found.library_folder / "libtorch_cpu.so").is_file()


def test_does_not_import_torch() -> None:
    program = (
        "import sys; from fusegen.runtime.torch_install import find_torch; find_torch();"
        "print('torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.stdout.strip() == "False", answer.stderr


@pytest.mark.parametrize(
    ("version", "cuda"), [("2.11.0+cu130", "13.0"), ("2.13.0+cpu", None), ("3.0.0a0", "14.1")]
)
def test_reads_versions(version: str, cuda: str | None, tmp_path: Path) -> None:
    found = read_install(package(tmp_path / "torch", version, cuda))
    assert (found.version, found.cuda) == (version, cuda)


def test_too_old(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"torch 2\.10\.1 is too old") as caught:
        read_install(package(tmp_path / "torch", "2.10.1", None))
    assert "torch>=2.11" in (caught.value.hint or "")


def test_without_headers(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"no C\+\+ headers"):
        read_install(package(tmp_path / "torch", "2.13.0", None, headers=False))
