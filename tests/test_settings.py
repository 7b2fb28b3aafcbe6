"""Environment variables: their values, and one clear line for nonsense."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusegen import settings
from fusegen.errors import FusegenError
from fusegen.settings import Dump, Stage

PACKAGE = Path(settings.__file__).parent


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", str(tmp_path))
    assert settings.cache_folder() == tmp_path
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", "~/kept")
    assert settings.cache_folder() == Path.home() / "kept"
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", "relative")
    assert settings.cache_folder() == Path.cwd() / "relative"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("FUSEGEN_CACHE_DIR", "")
    assert settings.cache_folder() == tmp_path / "fusegen"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Dump(frozenset())),
        ("graph", Dump(frozenset({Stage.GRAPH}))),
        ("graph, plan", Dump(frozenset({Stage.GRAPH, Stage.PLAN}))),
        ("all", Dump(frozenset(Stage))),
        ("cuda:some where", Dump(frozenset({Stage.CUDA}), Path("some where"))),
    ],
)
def test_dump(text: str, expected: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_DUMP", text)
    assert settings.dump() == expected


def test_unknown_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEGEN_DUMP", "graph,tokens")
    with pytest.raises(FusegenError, match="'tokens'") as caught:
        settings.dump()
    assert "ast, graph, passes, plan, cuda" in (caught.value.hint or "")


def test_dump_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    dump = Dump(frozenset({Stage.PLAN}))
    dump.write(Stage.PLAN, "Chain", "the plan\n")
    dump.write(Stage.GRAPH, "Chain", "not asked for")
    assert capsys.readouterr().err == "==== plan: Chain ====\nthe plan\n"


def test_dump_to_folder(tmp_path: Path) -> None:
    dump = Dump(frozenset({Stage.CUDA}), tmp_path / "dumps")
    dump.write(Stage.CUDA, "chain", "text")
    dump.write(Stage.GRAPH, "chain", "not asked for")
    assert [path.name for path in (tmp_path / "dumps").iterdir()] == ["cuda-chain.txt"]
    assert (tmp_path / "dumps" / "cuda-chain.txt").read_text() == "text"


def test_dump_to_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FusegenError, match=r"FUSEGEN_DUMP names the folder .* cannot be written"):
        Dump(frozenset({Stage.CUDA}), tmp_path / "file").write(Stage.CUDA, "chain", "text")


def test_only_settings_reads_the_environment() -> None:
    readers = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if re.search(r"os\.(environ\.get|environ\[|getenv)", file.read_text(encoding="utf-8"))
    }
    # fingerprint.py looks at variables that are the compilers', not fusegen's.
    assert readers == {"settings.py", "runtime/fingerprint.py"}
