"""What all tests share: without a GPU those marked `gpu` are left out, and a line says so."""

from __future__ import annotations

import functools

import pytest


@functools.cache
def gpu_present() -> bool:
    import torch

    return torch.cuda.is_available()


def asked_for_gpu(config: pytest.Config) -> bool:
    """Whether the user's own `-m` expression speaks about the marker, which then decides."""
    return "gpu" in (config.getoption("markexpr") or "")


def pytest_report_header(config: pytest.Config) -> str | None:
    if asked_for_gpu(config) or gpu_present():
        return None
    return "no GPU here: tests marked 'gpu' are left out (pytest -m gpu runs them all the same)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if asked_for_gpu(config) or gpu_present():
        return
    needing = [item for item in items if item.get_closest_marker("gpu")]
    if needing:
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]
