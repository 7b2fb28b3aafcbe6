"""A request is refused where it contradicts itself."""

from __future__ import annotations

import pytest

from fusegen.errors import FusegenError
from fusegen.runtime.request import BuildRequest, Target, validate_architecture

SOURCES = {"chain.cu": ""}


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100", "sm_120f"])
def test_architectures(architecture: str) -> None:
    validate_architecture(architecture)


@pytest.mark.parametrize("architecture", ["", "90a", "sm90", "sm_9", "compute_90", "sm_90a;ls"])
def test_no_architectures(architecture: str) -> None:
    with pytest.raises(FusegenError, match="not a GPU architecture"):
        validate_architecture(architecture)


@pytest.mark.parametrize("name", ["", "a-b", "1st", "a b"])
def test_name_is_an_identifier(name: str) -> None:
    with pytest.raises(ValueError, match="C identifier"):
        BuildRequest(name, SOURCES, Target.EMULATE)


@pytest.mark.parametrize("source", ["../chain.cu", "/etc/chain.cu", "a b.cu", "a/../../b.cu"])
def test_sources_stay_in_the_folder(source: str) -> None:
    with pytest.raises(ValueError, match="relative file name"):
        BuildRequest("chain", {source: ""}, Target.EMULATE)


def test_contradictions() -> None:
    with pytest.raises(ValueError, match="needs architectures"):
        BuildRequest("chain", SOURCES, Target.CUDA)
    with pytest.raises(ValueError, match="needs architectures"):
        BuildRequest("chain", SOURCES, Target.EMULATE, ("sm_80",))
    with pytest.raises(ValueError, match="checker"):
        BuildRequest("chain", SOURCES, Target.CUDA, ("sm_80",), check=True)
