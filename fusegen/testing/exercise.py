"""`python -m fusegen.testing.exercise TASK`: kernels run on drawn cases, forward and backward, and
nothing compared, while a sanitizer watches. TASK is an `Exercise` as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from fusegen.frontend.elaborate import ArgumentValue
from fusegen.ir.dtypes import DType
from fusegen.runtime.jobs import parallel_jobs
from fusegen.testing.case import Case
from fusegen.testing.families import FAMILIES
from fusegen.testing.processes import each
from fusegen.testing.refusals import Unsuitable
from fusegen.testing.strategies import model_cases
from fusegen.testing.subject import Subject

# Enough for a convolution's window.
ANY_SIZE = 8


@dataclass(frozen=True)
class Exercise:
    """What to run: a model of `file`, or, without one, a model of each of the `families` of
    kernels, on `examples` cases each; of a file's, without the backward if `forward_only`."""

    file: str | None = None
    model: str | None = None
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    forward_only: bool = False
    families: Sequence[str] = tuple(family.name for family in FAMILIES)
    dtypes: Sequence[str] = ("float32", "bfloat16")
    examples: int = 4
    seed: int = 0

    def as_json(self) -> str:
        """In the form that `main` reads."""
        return json.dumps(asdict(self))

    def subjects(self) -> list[tuple[Subject, Mapping[str, int]]]:
        """The models and their fixed sizes."""
        if self.file is None:
            chosen = (family for family in FAMILIES if family.name in self.families)
            return [(family.subject("cuda"), family.sizes) for family in chosen]
        subject = Subject.of(
            self.file,
            model=self.model,
            arguments=self.arguments,
            target="cuda",
            forward_only=self.forward_only,
        )
        return [(subject, self.sizes)]

    def parts(self) -> tuple[Exercise, ...]:
        """It, as one exercise for each model and dtype: these can run side by side."""
        families = ((name,) for name in self.families) if self.file is None else (self.families,)
        return tuple(
            replace(self, families=chosen, dtypes=(dtype,))
            for chosen in families
            for dtype in self.dtypes
        )

    @property
    def title(self) -> str:
        """What it runs, for people."""
        models = ", ".join(self.families) if self.file is None else self.file
        return f"{models} in {', '.join(self.dtypes)}"

    def build(self) -> None:
        """Build all its kernels, by one small case for each dtype, in as many processes as there
        may be compilers."""
        parts = self.parts()
        for _ in each(_build, parts, min(len(parts), parallel_jobs())):
            pass

    def run(self) -> int:
        """Run it on the GPU: on how many cases."""
        return sum(self._draw(subject, sizes) for subject, sizes in self.subjects())

    def _draw(self, subject: Subject, sizes: Mapping[str, int]) -> int:
        done = 0

        def one(case: Case) -> None:
            nonlocal done
            done += run_case(subject, case)

        wanted: Any = settings(
            max_examples=self.examples,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=tuple(HealthCheck),
        )
        for dtype in self.dtypes:
            cases = model_cases(subject, dtypes=(dtype,), sizes=sizes)
            wanted(seed(self.seed)(given(cases)(one)))()
        return done


def _build(part: Exercise) -> None:
    (dtype,) = part.dtypes
    for subject, sizes in part.subjects():
        nodes = subject.placeholders(DType(dtype))
        symbols = {s for node in nodes for size in node.shape for s in size.symbols()}
        some = {symbol.name: ANY_SIZE for symbol in symbols}
        for training in subject.modes:
            run_case(subject, Case(dtype, some | dict(sizes), training=training))


def run_case(subject: Subject, case: Case) -> bool:
    """Run the kernels on a case; False where PyTorch itself refuses it."""
    subject = subject.in_mode(case.training)
    tensors = case.draw(subject)
    try:
        results = subject.reference(tensors)
    except Unsuitable:
        return False
    subject.kernels(tensors)
    if subject.why_forward_only is None:
        upstream = case.draw_gradients(subject, results)
        subject.kernel_gradients(tensors, subject.trained(case.frozen), upstream)
    return True


def main(arguments: Sequence[str]) -> int:
    """Run an exercise; always 0, as the sanitizer has the last word."""
    (task,) = arguments
    count = Exercise(**json.loads(task)).run()
    print(f"ran {count} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
