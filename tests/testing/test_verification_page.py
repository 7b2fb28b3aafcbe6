"""The Python on the page about verification does what the page says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fusegen.testing import strategies

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/verification.md").read_text(encoding="utf-8"), re.S
)


@pytest.mark.parametrize("block", BLOCKS)
def test_examples(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "examples/kernelbench/l2_88.fuse", tmp_path / "model.fuse")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(strategies, "GREATEST_COUNT", 2048)  # what is verified is not the point
    names: dict[str, object] = {}
    exec(block, names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    for test in tests:
        assert callable(test)
        test()
