"""Faults planted in generated kernels, and whether verification sees them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import Phase
from hypothesis import strategies as st

from fusegen.compiler.loading import blueprint
from fusegen.compiler.specialisation import Specialisation
from fusegen.frontend import Source
from fusegen.runtime.generated_module import Blueprint
from fusegen.runtime.request import BuildRequest, Target
from fusegen.testing import Subject, Verification, strategies, subject, verification, verify

CHAIN = """
model Chain(features=24, groups=4):
    input x: [batch, features]
    fc = Linear(features, features)
    norm = GroupNorm(groups, features)
    scale = Parameter([features], init="ones")
    return x |> fc |> gelu |> norm |> mul(scale)
"""


@dataclass(frozen=True)
class Mutant:
    """A fault planted by exchanging what a pattern matches in generated files with this ending."""

    fault: str
    model: str
    pattern: str
    replacement: str | Callable[[re.Match[str]], str]
    file: str = ".cu"

    def planted(self, sources: Mapping[str, str]) -> dict[str, str]:
        """The sources with the fault."""
        return {
            name: re.sub(self.pattern, self.replacement, text) if name.endswith(self.file) else text
            for name, text in sources.items()
        }


@functools.cache
def specialised(source: str) -> Specialisation:
    """A model, taken in once for all its mutants."""
    return Specialisation.of(Source("model.fuse", source), None, {})


@functools.cache
def right_blueprint(chosen: Specialisation, target: Target, check: bool) -> Blueprint:
    """That of a model without a fault, planned once for all its mutants."""
    made = blueprint(chosen, target, check)
    return replace(made, request=functools.cache(made.request))


def under_test(source: str, *, forward_only: bool) -> Subject:
    """A model in the emulator."""
    return Subject(specialised(source), Target.EMULATE, forward_only)


def small_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw small tensors only, and use every output, which spares building further backwards."""
    monkeypatch.setattr(strategies, "GREATEST_COUNT", 2048)
    monkeypatch.setattr(strategies, "_absent", lambda _: st.just(()))


def verified_mutant(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, *, forward_only: bool
) -> Verification:
    """What verification says of small cases of the model with the fault, which must change
    something."""
    changed: list[str] = []
    # Modules in use are kept by key, and operators by all sources, with the backward that was given
    # to the first: neither may be found again without the fault, or with one of the same name.
    own = f"{mutant.file} {mutant.fault}"

    def planted(chosen: Specialisation, target: Target, check: bool) -> Blueprint:
        made = right_blueprint(chosen, target, check)

        def request(name: str) -> BuildRequest:
            wanted = made.request(name)
            sources = mutant.planted(wanted.sources)
            changed.extend(file for file in sources if sources[file] != wanted.sources[file])
            return replace(wanted, sources={**sources, "planted_fault.cuh": f"// {own}\n"})

        return replace(made, key=f"{made.key} {own}", request=request)

    monkeypatch.setattr(subject, "blueprint", planted)
    monkeypatch.setattr(verification, "first_parting", lambda *_: None)
    monkeypatch.setattr(verification, "PHASES", (Phase.generate,))
    small_cases(monkeypatch)
    made = under_test(mutant.model, forward_only=forward_only)
    result = verify(made, examples=100, seconds=600, dtypes=["float32"])
    assert changed, f"nothing in {mutant.file} matches {mutant.pattern}"
    return result
