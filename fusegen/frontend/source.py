"""The text of a `.fuse` file, read with every way that can fail told in one sentence."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fusegen.errors import FusegenError

MAXIMUM_BYTES = 1 << 20  # far beyond any model's chain; more is a file of another kind


@dataclass(frozen=True)
class Source:
    """A program's text, whose lines end with a line feed whatever they ended with, and the file
    name that messages show for it."""

    filename: str
    text: str

    def __post_init__(self) -> None:
        plain = self.text.replace("\r\n", "\n").replace("\r", "\n")
        object.__setattr__(self, "text", plain)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Source:
        """The source in the file at `path`.

        Raises FusegenError when it is missing, a directory, unreadable, larger than 1 MiB, or not
        UTF-8.
        """
        name = _shown(path)
        try:
            with Path(path).open("rb") as file:
                content = file.read(MAXIMUM_BYTES + 1)
        except FileNotFoundError:
            raise FusegenError(f"'{name}' does not exist", _similar_file(Path(path))) from None
        except IsADirectoryError:
            raise FusegenError(
                f"'{name}' is a directory", hint="name the .fuse file inside it"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FusegenError(f"'{name}' cannot be read: {reason}") from None
        if len(content) > MAXIMUM_BYTES:
            raise FusegenError(
                f"'{name}' is larger than 1 MiB, which no fusegen program needs",
                hint="check that it is the file you mean",
            )
        try:
            return Source(name, content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise FusegenError(
                f"'{name}' is not UTF-8 text: byte {error.start} (line {line}) is "
                f"0x{content[error.start]:02x}",
                hint="save it as UTF-8, or check that it is the file you mean",
            ) from None


def _shown(path: str | os.PathLike[str]) -> str:
    """The path as text that can be written, the bytes and code points that are none spelled."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:  # of no file there can be
        encoded = os.fspath(path).encode("utf-8", "backslashreplace")
    return encoded.decode("utf-8", "backslashreplace")


def _similar_file(path: Path) -> str | None:
    """A hint for the one mistake that is common: the name without its suffix."""
    candidate = path.with_name(f"{path.name}.fuse") if path.name else path
    return f"did you mean '{candidate}'?" if candidate != path and candidate.is_file() else None
