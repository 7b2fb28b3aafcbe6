"""A parsed program, and the choice of the model in it that is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.errors import FusegenError, Span
from fusegen.frontend.parser import parse_definitions
from fusegen.frontend.report import Report, listing, nearest
from fusegen.frontend.source import Source
from fusegen.frontend.syntax import Definition, Function, Model, outline, references


@dataclass(frozen=True)
class Program:
    """The definitions of one source, in its order."""

    source: Source
    definitions: tuple[Definition, ...]

    @property
    def models(self) -> Mapping[str, Model]:
        """The models by name."""
        return {d.name.text: d for d in self.definitions if isinstance(d, Model)}

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions by name."""
        return {d.name.text: d for d in self.definitions if isinstance(d, Function)}

    def outline(self) -> str:
        """The syntax tree as indented text, for a dump."""
        return "\n".join(outline(*self.definitions))

    def choose_model(self, name: str | None) -> Model:
        """The model of that name; without one, the only model that no other uses as a layer.

        Raises FusegenError, listing the models, where there is no such model or no one choice.
        """
        models = self.models
        if name is not None:
            if name not in models:
                hint = nearest(name, models) or f"its models are {listing(models)}"
                raise FusegenError(f"'{self.source.filename}' has no model '{name}'", hint)
            return models[name]
        used = {
            reference.text
            for model in models.values()
            for reference in references(model.body)
            if reference.text != model.name.text
        }
        candidates = [model for model in models.values() if model.name.text not in used]
        if len(candidates) != 1:
            raise FusegenError(
                f"'{self.source.filename}' has several models: {listing(models)}",
                "say which: --model NAME, or model='NAME' in Python",
            )
        return candidates[0]

    def comment_above(self, definition: Definition) -> str:
        """The comment lines directly above a definition, without their '#'."""
        lines = self.source.text.split("\n")  # as places count them
        first = last = definition.name.span.line - 1
        while first > 0 and lines[first - 1].startswith("#"):
            first -= 1
        return "\n".join(line.lstrip("#").strip() for line in lines[first:last])

    def text_at(self, span: Span) -> str:
        """What is written there, on one line."""
        lines = self.source.text.split("\n")[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return " ".join(line.strip() for line in lines)


def parse(source: Source) -> Program:
    """The program in a source.

    Raises SourceError with every syntax error in it, or if it defines no model.
    """
    program = Program(source, parse_definitions(source))
    if not program.models:
        report = Report(source)
        what = "defines no model" if program.definitions else "is empty"
        report.error(
            f"the program {what}", Span(1, 1, 1, 2), "a model starts with: model Name(...):"
        )
        report.check()
    return program
