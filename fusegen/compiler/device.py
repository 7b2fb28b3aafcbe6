"""The device that a model is planned for where it is not built."""

from __future__ import annotations

from fusegen.plan.cost import H100, Device, device_for
from fusegen.runtime.gpu import default_architectures, driver_cuda_version


def device_here() -> Device:
    """What modules that are built on this machine are planned for; without a GPU an H100."""
    return H100 if driver_cuda_version() is None else device_for(default_architectures())
