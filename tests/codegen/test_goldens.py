"""Whole emitted kernels, kept so that a change to them is seen.

Run with FUSEGEN_RENEW_GOLDENS=1 to write them anew, and read the difference before keeping it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.golden_graphs import GOLDENS, golden_text

FOLDER = Path(__file__).parent / "goldens"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", GOLDENS)
def test_emitted_text_is_the_golden_one(name: str) -> None:
    path, text = FOLDER / f"{name}.cu", golden_text(name)
    if os.environ.get("FUSEGEN_RENEW_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_goldens_are_those_of_the_graphs() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(GOLDENS)


@pytest.mark.parametrize("name", GOLDENS)
def test_text_is_tidy(name: str) -> None:
    lines = golden_text(name).splitlines()
    assert max(map(len, lines)) <= 120, max(lines, key=len)
    assert not any(line != line.rstrip() or "\t" in line for line in lines)
    assert "\n\n\n" not in golden_text(name)


PRINT_ALL = """
from tests.codegen.golden_graphs import GOLDENS, golden_text
for name in GOLDENS:
    print(golden_text(name))
"""


def test_text_does_not_depend_on_the_order_of_hashes() -> None:
    texts = [
        subprocess.run(
            [sys.executable, "-c", PRINT_ALL],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1] and len(texts[0]) > 10_000
