"""What the frontend needs to start: not PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "kernelbench" / "l2_88.fuse"
PROGRAM = """
import sys
from fusegen.frontend import Source, elaborate, parse
elaborate(parse(Source.read(sys.argv[1])))
print("torch" in sys.modules, "rich" in sys.modules)
"""


def test_elaborating_does_not_import_torch() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(EXAMPLE)], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "False"]
