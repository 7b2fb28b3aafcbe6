"""Generated modules in data-parallel, sharded and column-parallel training by two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fusegen.runtime.request import Target
from tests.runtime.distributed_worker import PROCESSES, WAYS

ROOT = Path(__file__).parents[2]
SECONDS = 600

# In units of the last place: what the order of a few sums changes.
TOLERANCE = 100.0

Errors = dict[str, dict[str, float]]


def gradients_errors(folder: Path, device: str) -> list[Errors]:
    """How far each process's gradients are from the single process's, by target and way, on a kind
    of device."""
    results = [folder / f"{rank}.json" for rank in range(PROCESSES)]
    module = "tests.runtime.distributed_worker"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(rank), folder / "meeting", result, device],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, result in enumerate(results)
    ]
    messages = []
    for process in processes:
        try:
            messages.append(process.communicate(timeout=SECONDS)[1])
        except subprocess.TimeoutExpired:
            process.kill()
            messages.append(f"killed after {SECONDS} s\n{process.communicate()[1]}")
    assert [p.returncode for p in processes] == [0] * PROCESSES, "\n".join(messages)
    return [json.loads(result.read_text()) for result in results]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[Errors]:
    return gradients_errors(tmp_path_factory.mktemp("distributed"), "cpu")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", [Target.EMULATE, Target.CUDA], ids=["kernels", "reference"])
def test_gradients_are_those_of_a_single_process(
    errors: list[Errors], target: Target, way: str
) -> None:
    for found in errors:
        assert len(found[f"{target.value} {way}"]) == 5
        for name, error in found[f"{target.value} {way}"].items():
            assert error <= TOLERANCE, name
