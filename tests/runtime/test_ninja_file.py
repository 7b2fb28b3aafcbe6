"""The options that the compilers get."""

from __future__ import annotations

from fusegen.runtime.ninja_file import build_file
from fusegen.runtime.request import Target
from tests.runtime.adder import adder


def test_sm_90_is_built_with_the_instructions_that_all_its_devices_have() -> None:
    text = build_file([adder(Target.CUDA, architectures=("sm_90", "sm_90a", "sm_80"))])
    assert text.count("-gencode=") == 2
    assert "-gencode=arch=compute_90a,code=sm_90a" in text
    assert "-gencode=arch=compute_80,code=sm_80" in text
