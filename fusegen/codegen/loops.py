"""The body of a loop over neighbouring elements: wide loads, arithmetic, wide stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fusegen.codegen.c_text import compute_type, loaded, storage_type, stored
from fusegen.codegen.conditions import Condition, divides_by_no_size, essential
from fusegen.codegen.environment import LINE
from fusegen.codegen.scope import Scope
from fusegen.codegen.statements import GuardedLoadText
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer, Quotient, Remainder, Symbol
from fusegen.plan.access import Access, access, advances, compares_alike, crossed
from fusegen.plan.early_loads import MOST_GUARDED
from fusegen.plan.expressions import Compute, Expression, Load, Position, WindowLoad
from fusegen.plan.kernels.stores import Store


@dataclass(frozen=True)
class LoadAhead:
    """A wide load for each step: its array, the type of an element, and what fills one step."""

    name: str
    type: str
    value: str


@dataclass
class VectorLoop:
    """Collects the text of a loop whose steps handle `vector` neighbouring elements.

    `step` is the loop variable; inside the loop, `first` names its value for the first element of
    the vector. What `before` holds is written ahead of the element loop, `body` inside it, `after`
    behind it. With `ahead`, a thread takes several vectors together, number `step` of `steps`:
    wide loads stand in a loop of their own, ahead of all else, so that all are in flight together.
    With `late`, it says of which loads that is not done: they stand where they are used.
    Of the loads in `staged`, each step's vector stands in shared memory already, as the text given
    there; `taken` are those of them that the loop reads.
    What one side of a selection alone may read is loaded under that side's conditions; those that
    are the same for a whole vector have the names in `conditions`, and their loads those in
    `guarded`. Loads in `pairs` are of two elements at most for a vector, its first one's and
    that of the `last`; `steps` tell from which element on it is the latter.
    Vectors are stored only where `guard`, if any, is true, and by way of the function `exchange`.
    """

    scope: Scope
    step: Integer
    first: str
    vector: int
    multiples: tuple[Integer, ...] = ()
    ahead: bool = False
    late: Callable[[Load], bool] = lambda _: False
    guard: str = ""
    exchange: str = ""
    staged: Mapping[Load, str] = field(default_factory=dict)
    taken: list[Load] = field(default_factory=list)
    loads: list[LoadAhead] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    vectors: dict[Load, str] = field(default_factory=dict)
    shared: dict[Load, str] = field(default_factory=dict)
    pairs: dict[Load, tuple[str, str]] = field(default_factory=dict)
    steps: dict[Quotient, str] = field(default_factory=dict)
    last: str = ""
    conditions: dict[Condition, str] = field(default_factory=dict)
    guarded: dict[tuple[Load, tuple[Condition, ...]], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What is prepared ahead of the element loop has names inside this loop only.
        self.scope = replace(self.scope, symbols=dict(self.scope.symbols))

    def is_contiguous(self, position: Integer) -> bool:
        """Whether a vector's elements at `position` are neighbours, so that one access does."""
        if self.ahead and self.vector == 1:
            return True
        return self._access(position) is Access.CONTIGUOUS

    def load(self, load: Load) -> str:
        """The right side for a load inside the element loop: an element of a vector loaded ahead
        where neighbours lie together, what was loaded once for a vector that shares an element,
        else a load of its own."""
        if load in self.vectors:
            return _element_of(self.vectors[load], load)
        name = self.scope.buffer(load.buffer)
        if not self.is_contiguous(load.offset):
            if self._access(load.offset) is Access.UNIFORM:
                return self._shared(load)
            division = crossed(load.offset, self.step, self.vector)
            if division is not None:
                return self._one_of_two(load, division)
            strided = load.buffer in self.scope.strided
            self._prepare_divisions((load.offset, *(load.coordinates if strided else ())))
            return scalar_load(self.scope)(load)
        variable = self.scope.names.fresh(f"{name}_vector")
        address = self.scope.address(load, self._at_first())
        dtype = storage_type(load.buffer.dtype)
        source = f"load_vector<{dtype}, vector>({place(name, address)})"
        if load in self.staged:
            self.taken.append(load)
            self.before.append(f"const auto {variable} = {self.staged[load]};")
        elif self.ahead and not self.late(load):
            self.loads.append(LoadAhead(variable, dtype, source))
            variable = f"{variable}[step]"
        else:
            target = f"const auto {variable} ="
            is_short = len(target + source) < LINE - 21
            lines = [f"{target} {source};"] if is_short else [target, f"    {source};"]
            self.before += lines
        self.vectors[load] = variable
        return _element_of(self.vectors[load], load)

    def condition(self, condition: Condition, is_certain: bool) -> str | None:
        """The name of a condition that is the same for all elements of a vector. It is evaluated
        ahead of them, so one that is met under others only must not divide by a size, which may be
        0 where they do not hold: that has a name only if it `is_certain` to be met."""
        known = replace(condition, holds=True)
        if known not in self.conditions:
            if not self._is_fixed(condition) or not (is_certain or divides_by_no_size(condition)):
                return None
            variable = self.scope.names.fresh("is_within")
            self.before.append(f"const bool {variable} = {self._compared(known)};")
            self.conditions[known] = variable
        return self.conditions[known] if condition.holds else f"!{self.conditions[known]}"

    def guarded_load(self, load: Load, conditions: tuple[Condition, ...] = (), /) -> str:
        """The right side for a load that may be read under `conditions` only: neighbours are loaded
        together where these are the same for all of them."""
        if load in self.vectors:
            return _element_of(self.vectors[load], load)
        if not (all(map(self._is_fixed, conditions)) and self.is_contiguous(load.offset)):
            return scalar_load(self.scope)(load)
        if (load, conditions) not in self.guarded:
            name, dtype = self.scope.buffer(load.buffer), storage_type(load.buffer.dtype)
            variable = self.scope.names.fresh(f"{name}_vector")
            address = self.scope.address(load, self._at_first())
            source = f"load_vector<{dtype}, vector>({place(name, address)})"
            nothing = f"Vector<{dtype}, vector>{{}}"
            guards = essential(conditions)
            is_ahead = self.ahead and not self.late(load)
            if is_ahead and len(self.guarded) < MOST_GUARDED:
                guard = " && ".join(map(self._compared, guards))
                self.loads.append(LoadAhead(variable, dtype, f"{guard} ? {source} : {nothing}"))
                variable = f"{variable}[step]"
            else:
                guard = " && ".join(map(self._guard, guards))
                lines = (f"const auto {variable} = {guard}", f"    ? {source}", f"    : {nothing};")
                self.before += lines
            self.guarded[load, conditions] = variable
        return _element_of(self.guarded[load, conditions], load)

    def _guard(self, condition: Condition) -> str:
        """A condition by its name, if it has one: else evaluated where those before it hold."""
        name = self.conditions.get(replace(condition, holds=True))
        if name is None:
            return self._compared(condition)
        return name if condition.holds else f"!{name}"

    def _is_fixed(self, condition: Condition) -> bool:
        """Whether a condition is the same for all elements of a vector."""
        coordinate, bound = condition.coordinate, condition.bound
        return compares_alike(coordinate, bound, self.step, self.vector, self.multiples)

    def _compared(self, condition: Condition) -> str:
        """A condition that is the same for all elements of a vector, where it is evaluated."""
        at_first = self._at_first()
        sides = (condition.coordinate, condition.bound)
        at, bound = (self.scope.factor(side.substitute(at_first)) for side in sides)
        return f"{at} {'<' if condition.holds else '>='} {bound}"

    def _access(self, position: Integer) -> Access:
        return access(position, self.step, self.vector, self.multiples)

    def _shared(self, load: Load) -> str:
        if load not in self.shared:
            name = self.scope.buffer(load.buffer)
            variable = self.scope.names.fresh(f"{name}_shared")
            address = self.scope.address(load, self._at_first())
            dtype = storage_type(load.buffer.dtype)
            self.before.append(f"const {dtype} {variable} = {name}[{address}];")
            self.shared[load] = variable
        return loaded(self.shared[load], load.dtype)

    def _one_of_two(self, load: Load, division: Quotient) -> str:
        """An element of which a vector needs two at most: that of its first and that of its last
        element, between which `division` makes the step."""
        at_first = self._at_first()
        if division not in self.steps:
            variable = self.scope.names.fresh("until_step")
            numerator = division.numerator.substitute(at_first)
            size = self.scope.text(division.denominator)
            rest = self.scope.factor(Integer.of_atom(Remainder(numerator, division.denominator)))
            self.before.append(f"const int64_t {variable} = {size} - {rest};")
            self.steps[division] = variable
        if load not in self.pairs:
            name, dtype = self.scope.buffer(load.buffer), storage_type(load.buffer.dtype)
            ends = []
            for end, at in (("first", at_first), ("last", self._at_last())):
                ends.append(self.scope.names.fresh(f"{name}_{end}"))
                source = f"{name}[{self.scope.address(load, at)}]"
                self.before.append(f"const {dtype} {ends[-1]} = {source};")
            self.pairs[load] = (ends[0], ends[1])
        first, last = (loaded(end, load.dtype) for end in self.pairs[load])
        return f"element < {self.steps[division]} ? {first} : {last}"

    def choice(self, choice: Compute, known: Mapping[Expression, str]) -> str | None:
        """The text for whether an element is kept, where neighbours lie together: four of them
        share their random numbers, so the choices for a vector are made together, ahead."""
        seed, position = choice.operands
        if not isinstance(seed, Load) or not isinstance(position, Position):
            return None
        if self._access(position.position) is not Access.CONTIGUOUS:
            return None
        # Ahead of the element loop, where no element of a vector has a name.
        given = known[seed] if seed in known else self._shared(seed)
        first = self.scope.text(position.position.substitute(self._at_first()))
        of = (choice.attributes.integer(name) for name in ("threshold", "number"))
        variable = self.scope.names.fresh(f"{choice.name}_vector")
        arguments = ", ".join([given, first, *map(str, of)])
        self.before.append(f"const auto {variable} = are_kept<vector>({arguments});")
        return f"{variable}[element]"

    def _prepare_divisions(self, values: tuple[Integer, ...]) -> None:
        """Divide once for the vector where its elements divide neighbouring numbers by a size."""
        found = {division for value in values for division in value.divisions()}
        for division in sorted(found, key=str):
            numerator, denominator = division.numerator, division.denominator
            is_size = denominator.constant is None and not denominator.divisions()
            fixed = self.step.alone not in denominator.symbols()
            if not (is_size and fixed and advances(numerator, self.step, self.vector)):
                continue
            if division in self.scope.symbols:
                continue
            variable = self.scope.names.fresh("division")
            start = self.scope.text(numerator.substitute(self._at_first()))
            divisor = self.scope.text(denominator)
            self.before.append(f"const SteppedDivision {variable}({start}, {divisor});")
            self.scope.symbols[Quotient(numerator, denominator)] = f"{variable}.quotient(element)"
            self.scope.symbols[Remainder(numerator, denominator)] = f"{variable}.remainder(element)"

    def store(self, store: Store, value: str) -> str:
        """The statement that stores `value` inside the element loop."""
        name = self.scope.buffer(store.buffer)
        dtype = storage_type(store.buffer.dtype)
        converted = stored(value, store.value.dtype, store.buffer.dtype)
        if not self.is_contiguous(store.position):
            return f"{name}[{self.scope.text(store.position)}] = {converted};"
        variable = self.scope.names.fresh(f"{name}_vector")
        address = self.scope.text(store.position.substitute(self._at_first()))
        self.before.append(f"Vector<{dtype}, vector> {variable};")
        given = f"{self.exchange}({variable})" if self.exchange else variable
        function = f"store_vector_if({self.guard}, " if self.guard else "store_vector("
        self.after.append(f"{function}{place(name, address)}, {given});")
        return f"{variable}[element] = {converted};"

    def _at_last(self) -> dict[Symbol, Integer]:
        symbol = self.step.alone
        if not self.last:
            self.last = self.scope.names.fresh("last")
            self.before.append(f"const int64_t {self.last} = {self.first} + vector - 1;")
        last = Symbol(self.last, symbol.extent)
        self.scope.symbols[last] = self.last
        return {symbol: Integer.of_atom(last)}

    def _at_first(self) -> dict[Symbol, Integer]:
        symbol = self.step.alone
        start = Symbol(self.first, symbol.extent)
        self.scope.symbols[start] = self.first
        return {symbol: Integer.of_atom(start)}


def place(pointer: str, address: str) -> str:
    """Where the element at an address stands, as a pointer."""
    return f"{pointer} + ({address})" if "?" in address else f"{pointer} + {address}"


def _element_of(vector: str, load: Load) -> str:
    # Truth values come out of their words that way.
    is_stored = load.dtype.compute is load.dtype and load.dtype is not DType.BOOL
    return f"{vector}[element]" if is_stored else f"value_at({vector}, element)"


def scalar_load(scope: Scope) -> GuardedLoadText:
    """Loads one element where the loop variables point."""

    def text(load: Load, conditions: tuple[Condition, ...] = ()) -> str:
        element = loaded(element_in_memory(load, scope), load.dtype)
        if not isinstance(load, WindowLoad) or not load.guards:
            return element
        return f"{inside_text(load, scope)} ? {element} : {compute_type(load.dtype)}{{}}"

    return text


def inside_text(
    load: WindowLoad, scope: Scope, values: Mapping[Symbol, Integer] | None = None
) -> str:
    """The condition that an element is one of the image, and no zero around it, with loop variables
    replaced by `values`."""
    guards = []
    for least, value, above in load.guards:
        text = scope.text(value.substitute(values or {}))
        guards.append(f"{text} >= {scope.text(least)} && {text} < {scope.text(above)}")
    return " && ".join(guards)


def element_in_memory(load: Load, scope: Scope) -> str:
    """The element where the loop variables point, in its storage type."""
    return f"{scope.buffer(load.buffer)}[{scope.address(load)}]"
