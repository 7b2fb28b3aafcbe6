"""The text of a product's prologues: what is made of an operand's elements as they are loaded."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.c_text import compute_type, loaded, storage_type, stored
from fusegen.codegen.kernel_text import aligned, contiguous
from fusegen.codegen.loops import VectorLoop, element_in_memory, inside_text, scalar_load
from fusegen.codegen.scope import Scope
from fusegen.codegen.statements import Statements
from fusegen.ir.integers import ZERO, Integer
from fusegen.plan.expressions import Expression, Load, Loaded, walk
from fusegen.plan.kernels.matrix_view import Major, OperandView
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.tolerance import tolerant

ACCESS_BYTES = 16


@dataclass(frozen=True)
class PrologueText:
    """What is done with `vector` neighbours of an operand in shared memory: statements ahead of
    the loop over them and inside it, which end with `value`. Those in `for_depth` are the same for
    all lines.

    `line` is the variable of its rows or columns. Neighbours are in depth, or in lines if
    `is_line_major`.
    """

    operand: str
    type: str
    vector: int
    line: str
    is_line_major: bool
    for_depth: tuple[str, ...]
    before: tuple[str, ...]
    body: tuple[str, ...]
    value: str

    @property
    def at(self) -> tuple[str, str]:
        """The places of the first element, as the variables that tell them: line and depth."""
        if self.is_line_major:
            return f"first_{self.line}", "depth"
        return self.line, "first_depth"

    @property
    def step(self) -> str:
        """The variable that moves from element to element."""
        return self.line if self.is_line_major else "depth"


def prologue_texts(
    plan: ProductPlan, left: OperandView, right: OperandView, scope: Scope
) -> tuple[PrologueText, ...]:
    """The prologues of a form whose operands are copied as they are in memory."""
    axes = plan.axes
    sides = (
        ("left", plan.left_prologue, left, axes.row, "row"),
        ("right", plan.right_prologue, right, axes.column, "column"),
    )
    return tuple(
        _prologue(name, value, view, axis, line, plan, scope)
        for name, value, view, axis, line in sides
        if value is not None
    )


def _prologue(
    name: str,
    value: Expression,
    view: OperandView,
    line_axis: Integer,
    line: str,
    plan: ProductPlan,
    scope: Scope,
) -> PrologueText:
    is_line_major = view.major is Major.LINE
    step = line_axis if is_line_major else plan.axes.depth
    vector = ACCESS_BYTES // view.buffer.dtype.itemsize
    size = plan.axes.rows if name == "left" else plan.axes.columns
    multiples = (size if is_line_major else plan.axes.depths,)
    loop = VectorLoop(
        scope, step, f"first_{line}" if is_line_major else "first_depth", vector, multiples
    )
    source = _leaf(value)
    known: dict[Expression, str] = {source: "value_at(piece, element)"}
    load = scalar_load(scope)
    statements = Statements(
        scope.names,
        loop.scope.symbols,
        loop.load,
        load,
        known,
        tolerant=tolerant([(value, view.buffer.dtype)]),
        choice=loop.choice,
    )
    for_depth: tuple[str, ...] = ()
    if not is_line_major:
        for met in walk((value,)):
            if isinstance(met, Load) and line_axis.alone not in met.symbols:
                loop.load(met)
        for_depth, loop.before = tuple(loop.before), []
    result = stored(statements.value(value), value.dtype, view.buffer.dtype)
    return PrologueText(
        name,
        storage_type(view.buffer.dtype),
        vector,
        line,
        is_line_major,
        for_depth,
        tuple(loop.before),
        statements.drain(),
        result,
    )


def prologue_conditions(
    plan: ProductPlan, left: OperandView, right: OperandView, host: Scope
) -> tuple[str, ...]:
    """The launcher's conditions that an operand's neighbours are all there or none, and what they
    meet can be loaded together."""
    conditions: dict[str, None] = {}
    axes = plan.axes
    for value, view, lines in (
        (plan.left_prologue, left, axes.rows),
        (plan.right_prologue, right, axes.columns),
    ):
        if value is None:
            continue
        vector = ACCESS_BYTES // view.buffer.dtype.itemsize
        along = lines if view.major is Major.LINE else axes.depths
        if along % vector != ZERO:
            conditions[f"{host.factor(along)} % {vector} == 0"] = None
        buffers = dict.fromkeys(e.buffer for e in walk((value,)) if isinstance(e, Load))
        strided = [buffer for buffer in buffers if buffer in host.strided]
        conditions |= dict.fromkeys(contiguous(host, buffer) for buffer in strided)
        conditions |= dict.fromkeys(aligned(host, buffers, vector))
    return tuple(conditions)


def element_of(source: Load, prologue: Expression | None, scope: Scope) -> ElementText:
    """An operand's element where the loop variables point, in its compute type."""
    load = scalar_load(scope)
    if prologue is None:
        return ElementText((), load(source))
    known: dict[Expression, str] = {}
    statements = Statements(scope.names, scope.symbols, load, load, known)
    variable = scope.names.fresh(f"{source.name}_value")
    statements.lines.append(f"const {compute_type(source.dtype)} {variable} = {load(source)};")
    known[_leaf(prologue)] = variable
    value = statements.value(prologue)
    return ElementText(statements.drain(), value)


@dataclass(frozen=True)
class SkippedText:
    """For a product some of whose operand's elements have no part: the condition that one has, that
    all of a line have, and both operands' elements."""

    inside: str
    all_inside: str
    left: str
    right: str


def skipped_text(plan: ProductPlan, scope: Scope) -> SkippedText | None:
    """The text for sums without those elements, if there are any."""
    window = plan.skipped
    if window is None:
        return None
    sides = (loaded(element_in_memory(x, scope), x.dtype) for x in (plan.left, plan.right))
    # Between the first tap and the last one all are inside where these are.
    depth = plan.axes.depth.alone
    ends = (ZERO, plan.axes.depths - 1)
    all_inside = " && ".join(inside_text(window, scope, {depth: end}) for end in ends)
    return SkippedText(inside_text(window, scope), all_inside, *sides)


@dataclass(frozen=True)
class ElementText:
    """Statements, and the text of the value that they lead to."""

    lines: tuple[str, ...]
    value: str


def _leaf(prologue: Expression) -> Loaded:
    (leaf,) = (e for e in walk((prologue,)) if isinstance(e, Loaded))
    return leaf
