"""Property tests of generated kernels, for users' own test suites and for `fusegen verify`."""

from __future__ import annotations

from fusegen.testing.assertions import assert_matches_reference, assert_verified
from fusegen.testing.case import Case, Filled
from fusegen.testing.checks import check_case
from fusegen.testing.judging import Direction, Finding
from fusegen.testing.layouts import Layout
from fusegen.testing.strategies import awkward_tensors, model_cases
from fusegen.testing.subject import Subject
from fusegen.testing.values import Values
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
