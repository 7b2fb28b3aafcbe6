"""The files that travel with the package: the grammar, the kernel templates and the device headers.

They are read through importlib.resources, so a wheel, an editable install and a zip all work.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Traversable

GRAMMAR_PACKAGE = "fusegen.grammar"
TEMPLATES_PACKAGE = "fusegen.templates"


def grammar(name: str) -> str:
    """The text of a grammar file such as `fuse.lark`; FileNotFoundError if there is none."""
    return _read(files(GRAMMAR_PACKAGE), name)


def template(name: str) -> str:
    """The text of a file under templates/, by relative name; FileNotFoundError if there is none."""
    return _read(files(TEMPLATES_PACKAGE), name)


def template_names() -> tuple[str, ...]:
    """The relative names of all Jinja2 templates, sorted."""
    names = _walk(files(TEMPLATES_PACKAGE), "")
    return tuple(sorted(name for name in names if name.endswith(".j2")))


def include_files() -> dict[str, str]:
    """The device headers under templates/include, as name (`fusegen/device.cuh`) to text, sorted.

    A folder with these files is the include path that the generated kernels are compiled with.
    """
    root = files(TEMPLATES_PACKAGE).joinpath("include")
    return {name: _read(root, name) for name in sorted(_walk(root, ""))}


def _read(root: Traversable, name: str) -> str:
    return root.joinpath(*name.split("/")).read_text(encoding="utf-8")


def _walk(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
