"""What `fusegen doctor` finds, on machines that lack one thing or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusegen.runtime import diagnosis, gpu
from fusegen.runtime.diagnosis import Diagnosis, diagnose
from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.gpu import Gpu, architecture_of

EMULATE = "run kernels in the emulator"
BUILD = "build CUDA modules"
RUN = "run CUDA modules"


@pytest.fixture(autouse=True)
def _full_machine(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    """A machine with everything, whatever this one has."""
    for name in ("find_cxx", "find_nvcc", "find_ninja", "find_torch"):
        monkeypatch.setattr(diagnosis, name, lambda: Path("/found"))
    monkeypatch.setattr(diagnosis, "_compiler_detail", str)
    monkeypatch.setattr(diagnosis, "_torch_detail", str)
    monkeypatch.setattr(diagnosis, "gpus", lambda: (Gpu("H100", "sm_90a", 80 << 30),))
    monkeypatch.setattr(diagnosis, "driver_cuda_version", lambda: (13, 0))


def possible(found: Diagnosis) -> set[str]:
    return {ability.name for ability in found.abilities if ability.possible}


def remove(monkeypatch: pytest.MonkeyPatch, finder: str) -> None:
    def missing() -> Path:
        raise ToolchainError("it is missing", hint="install it")

    monkeypatch.setattr(diagnosis, finder, missing)


def test_full_machine() -> None:
    found = diagnose()
    assert all(finding.fine and finding.mend is None for finding in found.findings)
    assert possible(found) >= {EMULATE, BUILD, RUN}
    assert "H100 (sm_90a, 80 GiB)" in [finding.detail for finding in found.findings]


@pytest.mark.parametrize(
    ("finder", "lost"),
    [
        ("find_nvcc", {BUILD, RUN}),
        ("find_cxx", {EMULATE, BUILD, RUN}),
        ("find_ninja", {EMULATE, BUILD, RUN}),
        ("find_torch", {EMULATE, BUILD, RUN}),
    ],
)
def test_missing_tool(finder: str, lost: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    everything = possible(diagnose())
    remove(monkeypatch, finder)
    found = diagnose()
    assert everything - possible(found) == lost
    (missing,) = (finding for finding in found.findings if not finding.fine)
    assert (missing.detail, missing.mend) == ("it is missing", "install it")


def test_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "gpus", lambda: ())
    found = diagnose()
    assert RUN not in possible(found)
    assert possible(found) >= {EMULATE, BUILD}


@pytest.mark.parametrize(
    ("toolkit", "driver", "fine"),
    [
        ("12.4.1", (13, 0), True),
        ("13.1.0", (13, 0), True),
        ("13.0.88", (12, 8), False),
        ("13.0.88", None, False),
    ],
)
def test_driver_runs_toolkits_of_its_major(
    toolkit: str, driver: tuple[int, int] | None, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "find_nvcc", lambda: toolkit)
    monkeypatch.setattr(diagnosis, "driver_cuda_version", lambda: driver)
    found = diagnose()
    (finding,) = (finding for finding in found.findings if finding.name == "GPU driver")
    assert finding.fine == fine
    assert (RUN in possible(found)) == fine
    assert (finding.mend is None) == fine


def test_cache_folder_under_a_file(cache_folder: Path) -> None:
    cache_folder.touch()
    found = diagnose()
    (missing,) = (finding for finding in found.findings if not finding.fine)
    assert missing.name == "cache"
    assert "FUSEGEN_CACHE_DIR" in (missing.mend or "")


@pytest.mark.parametrize(
    ("major", "minor", "architecture"),
    [(8, 0, "sm_80"), (8, 9, "sm_89"), (9, 0, "sm_90a"), (10, 0, "sm_100"), (12, 0, "sm_120")],
)
def test_architecture_of(major: int, minor: int, architecture: str) -> None:
    assert architecture_of(major, minor) == architecture


def test_default_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    here = (Gpu("H100", "sm_90a", 1), Gpu("A100", "sm_80", 1), Gpu("H100", "sm_90a", 1))
    monkeypatch.setattr(gpu, "driver_cuda_version", lambda: (13, 0))
    monkeypatch.setattr(gpu, "gpus", lambda: here)
    assert gpu.default_architectures() == ("sm_80", "sm_90a")
    monkeypatch.setattr(gpu, "gpus", lambda: ())
    assert gpu.default_architectures() == ("sm_80", "sm_90a", "sm_100")
    monkeypatch.setattr(gpu, "driver_cuda_version", lambda: None)
    assert gpu.default_architectures() == ("sm_80", "sm_90a", "sm_100")
