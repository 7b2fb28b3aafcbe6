"""Imports go in one direction, and torch is imported only where it has to be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fusegen"

# Each part may import parts of earlier rows, and itself; parts of one row don't know each other.
LAYERS = (
    ("errors",),
    ("settings", "resources"),
    ("ir",),
    ("ops",),
    ("frontend", "passes"),
    ("plan",),
    ("codegen",),
    ("emulator",),
    ("runtime",),
    ("compiler",),
    ("__init__",),
    ("testing",),
    ("cli",),
    ("__main__",),
)
LEVELS = {part: level for level, parts in enumerate(LAYERS) for part in parts}
MAY_IMPORT_TORCH = {"runtime", "testing"}


@dataclass(frozen=True)
class Import:
    """One import, wherever in its file it stands: the file, its line, and the absolute module."""

    file: Path
    line: int
    module: str

    @property
    def importer(self) -> str:
        return self.file.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def imported(self) -> str | None:
        """The part of fusegen that is imported; None for other packages and for the version."""
        root, _, rest = self.module.partition(".")
        if root != "fusegen" or rest == "__version__":
            return None
        return rest.split(".")[0] or "__init__"

    def __str__(self) -> str:
        return f"{self.file.relative_to(PACKAGE.parent)}:{self.line} imports {self.module}"


def imports_of(file: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(file, node.lineno, name.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute in this package"
            for name in node.names:
                # `from fusegen import x` names a part; `from fusegen.ir import x` a thing in one.
                module = f"fusegen.{name.name}" if node.module == "fusegen" else node.module
                yield Import(file, node.lineno, module or "")


SOURCES = sorted(PACKAGE.rglob("*.py"))
IMPORTS = [found for file in SOURCES for found in imports_of(file)]


def test_every_part_has_a_place_in_the_order() -> None:
    parts = {file.relative_to(PACKAGE).parts[0].removesuffix(".py") for file in SOURCES}
    assert parts <= set(LEVELS)


def against_the_direction(found: Import) -> bool:
    imported = found.imported
    if imported is None or imported == found.importer:
        return False
    # Whatever imports `fusegen` alone gets the API's module, which only the outermost parts may;
    # its version, a constant, is the exception.
    return LEVELS.get(imported, len(LAYERS)) >= LEVELS[found.importer]


def test_imports_go_in_one_direction() -> None:
    assert [str(found) for found in IMPORTS if against_the_direction(found)] == []


def test_text_is_made_of_plans_not_of_strategies() -> None:
    """What both must know, such as how many threads a warp has, stands in `plan/kernels`."""
    strategies = "fusegen.plan.strategies"
    users = [found for found in IMPORTS if f"{found.module}.".startswith(f"{strategies}.")]
    assert any(found.importer == "plan" for found in users)
    assert [str(found) for found in users if found.importer != "plan"] == []


def test_torch_is_imported_only_by_runtime_and_testing() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.module.split(".")[0] == "torch" and found.importer not in MAY_IMPORT_TORCH
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("file", "module", "wrong"),
    [
        ("ir/graph.py", "fusegen.ops.record", True),
        ("passes/cse.py", "fusegen.frontend.parser", True),
        ("codegen/render.py", "fusegen", True),
        ("codegen/render.py", "fusegen.plan", False),
        ("codegen/render.py", "fusegen.__version__", False),
        ("ops/record.py", "fusegen.nonexistent", True),
        ("ir/graph.py", "fusegen.ir.dtypes", False),
        ("cli/main.py", "fusegen", False),
    ],
)
def test_the_direction_rule_itself(file: str, module: str, wrong: bool) -> None:
    assert against_the_direction(Import(PACKAGE / file, 1, module)) == wrong


@pytest.mark.parametrize("module", ["fusegen", "fusegen.cli.main"])
def test_importing_does_not_import(module: str) -> None:
    """Neither the package nor the command line pays for torch or the template engine."""
    program = f"import {module}, sys; print([m for m in ('torch', 'jinja2') if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
