"""x"""
from __future__ import annotations
from fusegen.testing.subject import Subject
from fusegen.testing.case import Case


def first_parting(subject: Subject, case: Case) -> str | None:
    return None
