"""A compiler's output, read for its user."""

from __future__ import annotations

import pytest

from fusegen.runtime.build_log import first_errors, known_mend

GCC = """\
g++ -O2 -c chain_binding.cpp
In file included from chain_binding.cpp:1:
chain_binding.cpp:7:3: error: 'foo' was not declared in this scope
    7 |   foo();
      |   ^~~
chain_binding.cpp:9:1: warning: unused
"""
NVCC = """\
nvcc -c chain.cu
chain.cu(12): error: identifier "bar" is undefined

1 error detected in the compilation of "chain.cu".
"""


def test_gcc_error() -> None:
    expected = "chain_binding.cpp:7:3: error: 'foo' was not declared in this scope"
    assert first_errors(GCC) == expected


def test_nvcc_error() -> None:
    assert first_errors(NVCC) == 'chain.cu(12): error: identifier "bar" is undefined'


def test_at_most_five() -> None:
    log = "\n".join(f"a.cu({line}): error: bad" for line in range(20))
    assert first_errors(log).splitlines() == [f"a.cu({line}): error: bad" for line in range(5)]


def test_without_any_error_line_the_end_is_shown() -> None:
    assert first_errors("\n".join(map(str, range(9)))) == "4\n5\n6\n7\n8"


@pytest.mark.parametrize(
    ("line", "mend"),
    [
        ("fatal error: error writing to /tmp/x.s: No space left on device", "disk is full"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "FUSEGEN_JOBS=1"),
        ("error: #error -- unsupported GNU version! gcc versions later than 15", "FUSEGEN_CXX"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_999'", "--arch"),
        ("ptxas fatal   : Unsupported .version 9.1; current version is '9.0'", "one version"),
    ],
)
def test_known_causes_have_a_mend(line: str, mend: str) -> None:
    assert first_errors(line) == line
    assert mend in (known_mend(line) or "")


def test_the_sources_own_error_has_none() -> None:
    assert known_mend(GCC) is None
