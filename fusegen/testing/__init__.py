"""Property tests of generated kernels, for users' own test suites and for `fusegen verify`."""

from __future__ import annotations

from fusegen.testing.case import Case, Filled
from fusegen.testing.checks import Finding, check_case
from fusegen.testing.layouts import Layout
from fusegen.testing.subject import Subject
from fusegen.testing.values import Values
from fusegen.testing.verification import Failure, Verification, verify

__all__ = [
    "Case",
    "Failure",
    "Filled",
    "Finding",
    "Layout",
    "Subject",
    "Values",
    "Verification",
    "check_case",
    "verify",
]
