"""Reading files: every way it can fail is one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fusegen.errors import FusegenError, SourceError
from fusegen.frontend import Source, elaborate, parse
from fusegen.frontend.source import MAXIMUM_BYTES

PROGRAM = "model M:\n    input x: [b]\n    return x\n"


def refusal(path: Path) -> tuple[str, str | None]:
    with pytest.raises(FusegenError) as failure:
        Source.read(path)
    return failure.value.message, failure.value.hint


def test_a_program_is_read_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "m.fuse"
    file.write_bytes(b"\xef\xbb\xbf" + PROGRAM.replace("\n", "\r\n").encode())
    source = Source.read(file)
    assert source.filename == str(file)
    assert list(parse(source).models) == ["M"]


def test_missing(tmp_path: Path) -> None:
    (tmp_path / "m.fuse").touch()
    assert refusal(tmp_path / "n") == (f"'{tmp_path}/n' does not exist", None)
    assert refusal(tmp_path / "m")[1] == f"did you mean '{tmp_path}/m.fuse'?"


def test_a_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (f"'{tmp_path}' is a directory", "name the .fuse file inside it")


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:  # a test may run as root, who may read all
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(tmp_path / "m")[0] == f"'{tmp_path}/m' cannot be read: Permission denied"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_name_no_file_can_have(name: str) -> None:
    assert "cannot be read" in refusal(Path(name))[0]


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "m.fuse"
    file.write_bytes(b"# fine\n# caf\xe9\n")
    message, _ = refusal(file)
    assert message == f"'{file}' is not UTF-8 text: byte 12 (line 2) is 0xe9"


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    """The name is shown, hashed and written with its odd bytes spelled."""
    file = os.fsencode(tmp_path) + b"/m\xff.fuse"
    with open(file, "wb") as stream:
        stream.write(b"# fine\n")
    assert Source.read(os.fsdecode(file)).filename == f"{tmp_path}/m\\xff.fuse"


def test_ten_megabytes_of_noise(tmp_path: Path) -> None:
    file = tmp_path / "m.fuse"
    file.write_bytes(b"\x00\xff" * (5 << 20))
    message, _ = refusal(file)
    assert message == f"'{file}' is larger than 1 MiB, which no fusegen program needs"
    with pytest.raises(FusegenError):
        parse(Source("m.fuse", "x" * (MAXIMUM_BYTES + 1)))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_places_count_lines_whatever_ends_them(end: str) -> None:
    """Found by mutated sources: the text that an error shows had fewer lines than it counted."""
    text = end.join(["# Not\x0cthis\u2028one.", "# This one.", "model M(n=y):", ""])
    with pytest.raises(SourceError) as caught:
        elaborate(parse(Source("model.fuse", text)))
    span = caught.value.diagnostics[-1].span
    assert span is not None
    assert caught.value.source.split("\n")[span.line - 1] == "model M(n=y):"


def test_a_comment_is_of_the_lines_that_places_count() -> None:
    text = "# One\x0cline.\nmodel M():\n    input x: [n]\n    return -x\n"
    program = parse(Source("model.fuse", text))
    assert program.comment_above(program.models["M"]) == "One\x0cline."
