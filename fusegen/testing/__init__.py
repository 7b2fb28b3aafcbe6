"""Property tests of generated kernels, for users' own test suites and for `fusegen verify`.

What draws cases needs hypothesis, and is imported when it is first asked for: the bounds for right
results, which `fusegen tune` takes as well, do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fusegen.testing.case import Case, Filled
from fusegen.testing.checks import check_case
from fusegen.testing.judging import Direction, Finding
from fusegen.testing.layouts import Layout
from fusegen.testing.subject import Subject
from fusegen.testing.values import Values

if TYPE_CHECKING:
    from fusegen.testing.assertions import assert_matches_reference, assert_verified
    from fusegen.testing.strategies import awkward_tensors, model_cases
    from fusegen.testing.verification import Failure, Verification, verify

__all__ = [
    "Case",
    "Direction",
    "Failure",
    "Filled",
    "Finding",
    "Layout",
    "Subject",
    "Values",
    "Verification",
    "assert_matches_reference",
    "assert_verified",
    "awkward_tensors",
    "check_case",
    "model_cases",
    "verify",
]

_WITH_HYPOTHESIS = {
    "assertions": ("assert_matches_reference", "assert_verified"),
    "strategies": ("awkward_tensors", "model_cases"),
    "verification": ("Failure", "Verification", "verify"),
}


def __getattr__(name: str) -> object:
    for module, names in _WITH_HYPOTHESIS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
