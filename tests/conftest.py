"""What all tests share: tests that need a GPU or nvcc are left out where there is none, hypothesis
draws the same examples in every run, without a time limit on any, and no test depends on those that
ran before it in its process."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from fusegen import settings
from fusegen.runtime.errors import ToolchainError
from fusegen.runtime.toolchain import find_nvcc

# PyTorch's threads only wait for each other on the tests' small tensors, and cost as much again. It
# reads this when it is loaded, in the processes that tests start too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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


def pytest_configure(config: pytest.Config) -> None:
    """All test processes share a cache that is nobody else's. Its keys are of everything that a
    build depends on, so it may be empty, or filled by an earlier run."""
    folder = config.rootpath / ".pytest_cache" / "fusegen"
    os.environ.setdefault(settings.CACHE_DIR.name, str(folder))


def settings_of_the_process() -> tuple[object, ...]:
    """What one test could leave behind that changes another's result."""
    variables = ("PATH", *(setting.name for setting in settings.ALL))
    common = os.getcwd(), tuple(sys.path), *(os.environ.get(name) for name in variables)
    return *common, *settings_of_torch()


def settings_of_torch() -> tuple[object, ...]:
    """Those of PyTorch, if it is loaded: the tests of most stages do without it."""
    if "torch" not in sys.modules:
        return ()
    import torch

    return (
        *((torch.is_autocast_enabled(x), torch.get_autocast_dtype(x)) for x in ("cpu", "cuda")),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.mkldnn.matmul.fp32_precision,
        torch.are_deterministic_algorithms_enabled(),
    )


@pytest.fixture(autouse=True)
def settings_are_left_as_found() -> Iterator[None]:
    """Which tests share a process is chance, so that what one of them leaves behind is a failure
    of another now and then."""
    start_afresh()
    before = settings_of_the_process()
    yield
    after = settings_of_the_process()
    assert after[: len(before)] == before  # longer where the test was the first to load PyTorch


def start_afresh() -> None:
    """What PyTorch keeps of earlier tests without having been told to: where its generator stands,
    and how often `torch.compile` has compiled a function, which it gives up on after a while."""
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(0)
    if "torch._dynamo" in sys.modules:
        import torch._dynamo

        torch._dynamo.reset()


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
