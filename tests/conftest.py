"""What all tests share: tests that need a GPU or nvcc are left out where there is none, and
hypothesis draws the same examples in every run, without a time limit on any."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.toolchain import find_nvcc

hypothesis.settings.register_profile("fusegen", deadline=None, derandomize=True)
hypothesis.settings.load_profile("fusegen")


@functools.cache
def gpu_present() -> bool:
    import torch

    return torch.cuda.is_available()


@functools.cache
def gpus_present() -> bool:
    import torch

    return torch.cuda.device_count() >= 2


@functools.cache
def nvcc_present() -> bool:
    try:
        find_nvcc()
    except ToolchainError:
        return False
    return True


NEEDS: dict[str, Callable[[], bool]] = {
    "gpu": gpu_present,
    "gpus": gpus_present,
    "nvcc": nvcc_present,
}
"""Each marker that names a need, and whether this machine meets it."""


def settings_of_the_process() -> tuple[object, ...]:
    """What one test could leave behind that changes another's result."""
    if "torch" not in sys.modules:  # the tests of most stages do without it
        return ()
    import torch

    return (
        *((torch.is_autocast_enabled(x), torch.get_autocast_dtype(x)) for x in ("cpu", "cuda")),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.backends.cuda.matmul.fp32_precision,
        torch.are_deterministic_algorithms_enabled(),
    )


@pytest.fixture(autouse=True)
def settings_are_left_as_found() -> Iterator[None]:
    """Which tests share a process is chance, so that what one of them leaves behind is a failure
    of another now and then."""
    before, folder = settings_of_the_process(), os.getcwd()
    yield
    assert os.getcwd() == folder
    assert not before or settings_of_the_process() == before


def left_out(config: pytest.Config) -> list[str]:
    """The markers whose tests are left out; one that the user's own `-m` names is not."""
    asked_for = re.findall(r"\w+", config.getoption("markexpr") or "")
    return [name for name, present in NEEDS.items() if name not in asked_for and not present()]


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [
        f"no {name} here: tests marked '{name}' are left out (pytest -m {name} runs them anyway)"
        for name in left_out(config)
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = left_out(config)
    needing = {item for item in items if any(item.get_closest_marker(name) for name in missing)}
    if needing:
        config.hook.pytest_deselected(items=list(needing))
        items[:] = [item for item in items if item not in needing]
