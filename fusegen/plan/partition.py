"""Which operations share a kernel: groups grow where a strategy applies and the estimate falls."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fusegen.errors import FusegenError
from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops.pointwise.casting import widens
from fusegen.ops.primitive.convolutions import CONVOLUTION
from fusegen.ops.record import LibraryCall, Pointwise, Product, Reduction
from fusegen.passes.results import COMPUTED
from fusegen.plan.group import Context, Group
from fusegen.plan.handover import Handover, Producers, handover, widening_handed_over
from fusegen.plan.strategies import Verdict, judge
from fusegen.plan.taking_over import (
    Readers,
    left_behind,
    product_alone,
    readers_of_products,
    with_makers,
)
from fusegen.plan.tensor_cores import TENSOR_DTYPES

# What has fewer elements than the rest of a kernel by this factor may stand in memory for it.
NARROW = 64


@dataclass(frozen=True)
class Part:
    """One group of the final partition, with the plan chosen for it."""

    group: Group
    verdict: Verdict


# A way to hand a result of a group over to those that read it.
Way = Callable[[Node, Group, Sequence[Group], Producers, Mapping[Node, int]], "Handover | None"]


class Unplannable(FusegenError):
    """An operation that no strategy can do, even on its own."""


def partition(graph: Graph, context: Context) -> tuple[Part, ...]:
    """The graph's operations in groups, in an order in which they can run.

    Operations join the groups of their producers one by one in topological order, then groups that
    read the same memory join each other, each time only if the whole gets cheaper by the
    strategies' estimates. Then a product joins the one that makes an operand of it, with what
    stands between the two; and products whose operands are made of the same others make these for
    themselves, where that is quicker than to store them. In the end a group gives back what it
    computes for each of its elements although it is the same for many of them, where that is dear;
    what is widened for other groups is stored as it was before, and widened by these; and products
    take over the elementwise ends of row kernels, where that is quicker than to read them. What
    leads to what is taken over and to something else is then in several groups.
    """
    state = _Partition(Dependencies.of(graph), context)
    for node in state.dependencies.nodes:
        state.add(node)
    state.join_siblings()
    state.join_attention()
    state.take_over_operands()
    state.part_narrow_values()
    state.widen_where_read()
    state.hand_over_ends()
    return state.ordered()


@dataclass(frozen=True)
class Dependencies:
    """The graph as operations alone, views looked through: who uses whom, what is returned, and
    which elementwise operations lead to reductions only."""

    nodes: tuple[Node, ...]
    producers: dict[Node, tuple[Node, ...]]
    users: dict[Node, frozenset[Node]]
    returned: frozenset[Node]
    only_reduced: frozenset[Node]

    @staticmethod
    def of(graph: Graph) -> Dependencies:
        """The dependencies of a decomposed graph."""
        order = topological(graph.roots)
        bases: dict[Node, tuple[Node, ...]] = {}
        for node in order:
            if isinstance(node.operation, COMPUTED):
                bases[node] = (node,)
            else:
                below = [base for operand in node.operands for base in bases[operand]]
                bases[node] = tuple(dict.fromkeys(below))
        nodes = tuple(node for node in order if isinstance(node.operation, COMPUTED))
        producers = {
            node: tuple(dict.fromkeys(b for operand in node.operands for b in bases[operand]))
            for node in nodes
        }
        users: dict[Node, set[Node]] = {node: set() for node in nodes}
        for node, sources in producers.items():
            for producer in sources:
                users[producer].add(node)
        returned = frozenset(base for root in graph.roots for base in bases[root])
        only_reduced: set[Node] = set()
        for node in reversed(nodes):
            if isinstance(node.operation, Pointwise) and users[node] and node not in returned:
                ends = (
                    isinstance(u.operation, Reduction) or u in only_reduced for u in users[node]
                )
                if all(ends):
                    only_reduced.add(node)
        return Dependencies(
            nodes,
            producers,
            {n: frozenset(u) for n, u in users.items()},
            returned,
            frozenset(only_reduced),
        )

    def group(self, nodes: tuple[Node, ...]) -> Group:
        """Operations as a group, whose results are what others use or what is returned."""
        inside = set(nodes)
        results = (n for n in nodes if n in self.returned or self.users[n] - inside)
        return Group(nodes, tuple(results))


@dataclass
class _Partition:
    dependencies: Dependencies
    context: Context
    groups: dict[int, Part] = field(default_factory=dict)
    group_of: dict[Node, int] = field(default_factory=dict)
    rank: dict[Node, int] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        """A group for `node`, then joined with those of its producers as far as that pays."""
        self.rank[node] = len(self.rank)
        own = self.rank[node]
        group = self.dependencies.group((node,))
        alone = judge(group, self.context)
        if not alone.steps:
            reasons = "; ".join(f"{name}: {why}" for name, why in alone.refusals)
            raise Unplannable(f"no kernel computes {node.written_as}: {reasons}")
        self.groups[own] = Part(group, alone)
        self.group_of[node] = own
        if isinstance(node.operation, LibraryCall):
            return  # it reads what stands in memory
        self._join_unstored(node)
        if node not in self.dependencies.only_reduced:
            self._join_producers(node)

    def _join_unstored(self, node: Node) -> None:
        """Join elementwise operations that lead to reductions only with what they lead to, before
        anything else: else the kernel of their operands would store their results."""
        for producer in self.dependencies.producers[node]:
            if producer in self.dependencies.only_reduced:
                self._try(frozenset((self.group_of[node], self.group_of[producer])))

    def _join_producers(self, node: Node) -> None:
        """Join the group of `node` with those it reads from, and then with those that several of
        these read: all that uses their results may be inside by then."""
        candidates = list(self._below(self.group_of[node]))
        readers = Counter(below for key in candidates for below in self._below(key))
        size = {key: self._bytes(key) for key in candidates}
        candidates.sort(key=lambda key: (-size[key], key))
        if len(candidates) < 2 or not self._try(frozenset((self.group_of[node], *candidates))):
            for key in candidates:
                if key in self.groups:
                    self._try(frozenset((self.group_of[node], key)))
        for key in sorted(self._below(self.group_of[node])):
            if readers[key] > 1:
                self._try(frozenset((self.group_of[node], key)))

    def join_siblings(self) -> None:
        """Join groups that read the same values, while any such pair gets cheaper together."""
        tried: set[frozenset[int]] = set()
        changed = True
        while changed:
            changed = False
            for pair in self._sharing():
                if pair not in tried:
                    tried.add(pair)
                    if self._try(pair):
                        changed = True
                        break

    def join_attention(self) -> None:
        """Join each product with what makes an operand of it from another product, where one kernel
        does all of them: two of three groups would not be joined, as either reads what the other
        would have to store."""
        for key in sorted(self.groups):
            for way in self._ways_between_products(key):
                if way <= self.groups.keys():
                    self._try(way)

    def _ways_between_products(self, key: int) -> list[frozenset[int]]:
        """A product's group, another product's below it, and the group between them, if any."""
        found: list[frozenset[int]] = []
        if key in self.groups and self._has_product(key):
            for below in sorted(self._below(key)):
                if self._has_product(below):
                    found.append(frozenset((key, below)))
                else:
                    sources = filter(self._has_product, sorted(self._below(below)))
                    found += (frozenset((key, below, source)) for source in sources)
        return found

    def _has_product(self, key: int) -> bool:
        return bool(self.groups[key].group.having(Product))

    def take_over_operands(self) -> None:
        """Let products make their operands of other products themselves, in pairs where that is
        quicker, where all of it takes less time so. Who could do so is told anew after each that
        does: it is in another group then, and what it has taken over may be in none."""
        tried: set[frozenset[int]] = set()
        while True:
            groups = {key: part.group for key, part in self.groups.items()}
            found = readers_of_products(groups, self.dependencies.producers)
            left = [readers for readers in found if frozenset(readers.makers) not in tried]
            if not left:
                return
            tried.add(frozenset(left[0].makers))
            self._take_over([*self._takers(left[0]).values()])

    def _takers(self, readers: Readers) -> dict[tuple[int, ...], Part]:
        """The groups of readers, or of pairs of them, that can make their operands themselves; of
        a product in a group with what cannot, such as a reduction of its rows, that one alone."""
        found: dict[tuple[int, ...], Part] = {}
        for key in readers.makers:
            found |= self._taker(readers, (key,))
        for pair in itertools.combinations(readers.makers, 2):
            apart = [(key,) for key in pair]
            if all(key in found for key in apart) and not self._cyclic(frozenset(pair)):
                together = self._taker(readers, pair)
                seconds = sum(found[key].verdict.seconds for key in apart)
                if together and together[pair].verdict.seconds < seconds:
                    found = {k: part for k, part in found.items() if k not in apart} | together
        return found

    def _taker(self, readers: Readers, keys: tuple[int, ...]) -> dict[tuple[int, ...], Part]:
        whole = tuple(self.groups[key].group for key in keys)
        makers = frozenset().union(*(readers.makers[key] for key in keys))
        own = {node for group in whole for node in group.nodes}
        for groups in (whole, tuple(map(product_alone, whole))):
            group = with_makers(groups, makers, self.rank)
            rest = own - {*group.nodes}
            if not any(rest & {*self.dependencies.producers[node]} for node in group.nodes):
                verdict = judge(group, self.context)
                if verdict.steps:
                    return {keys: Part(group, verdict)}
        return {}

    def _take_over(self, takers: Sequence[Part]) -> None:
        """Add the takers, and put what is left of the groups that had their operations in the place
        of these, if all take less time so."""
        left = left_behind(
            {key: part.group for key, part in self.groups.items()},
            [taker.group for taker in takers],
            self.dependencies.users,
            self.dependencies.returned,
            self.dependencies.producers,
        )
        after = {key: Part(g, judge(g, self.context)) for key, g in left.items() if g is not None}
        parts = (*takers, *after.values())
        before = sum(self.groups[key].verdict.seconds for key in left)
        if sum(part.verdict.seconds for part in parts) < before:  # endless if none does it
            first = max(self.groups) + 1
            for key in left:
                del self.groups[key]
            # What both have is found where it is stored.
            for key, part in (*enumerate(takers, start=first), *after.items()):
                self.groups[key] = part
                self.group_of.update(dict.fromkeys(part.group.nodes, key))

    def part_narrow_values(self) -> None:
        """Take out of each group what it computes from memory alone for far fewer elements than
        its others, where two kernels take less time than one."""
        for key in sorted(self.groups):
            part = self.groups[key]
            narrow = self._narrow(part.group)
            wide = tuple(node for node in part.group.nodes if node not in narrow)
            if not narrow or not wide:
                continue
            groups = [self.dependencies.group(nodes) for nodes in (tuple(narrow), wide)]
            verdicts = [judge(group, self.context) for group in groups]
            seconds = sum(verdict.seconds for verdict in verdicts)
            if seconds < part.verdict.seconds:
                own = max(self.groups) + 1
                self.groups[own], self.groups[key] = map(Part, groups, verdicts)
                self.group_of.update(dict.fromkeys(narrow, own))

    def widen_where_read(self) -> None:
        """Let the groups that read a widened value widen it themselves, where all of them take less
        time so. Values that are few beside their others stay as exact as they are."""
        for key in sorted(self.groups):
            for result in self.groups[key].group.results:
                if widens(result) and result not in self.dependencies.returned:
                    keys = (key, *self._readers(result))
                    most = max(self._most_elements(self.groups[k].group) for k in keys)
                    if self.context.hints.value(result.type.count) > most // NARROW:
                        self._hand_over(key, result, widening_handed_over)

    def _most_elements(self, group: Group) -> int:
        return max(self.context.hints.value(node.type.count) for node in group.nodes)

    def hand_over_ends(self) -> None:
        """Give the elementwise end of what reduces rows to the products that have it as an operand,
        where all of them take less time so."""
        for key in sorted(self.groups):
            group = self.groups[key].group
            if group.having(Reduction) and not group.having(Product):
                for end in group.results:
                    readers = [self.groups[k].group for k in self._readers(end)]
                    is_an_operand = readers and all(reader.having(Product) for reader in readers)
                    is_short = end.dtype in TENSOR_DTYPES
                    if is_an_operand and is_short and end not in self.dependencies.returned:
                        self._hand_over(key, end, handover)

    def _hand_over(self, key: int, end: Node, way: Way) -> None:
        readers = self._readers(end)
        groups = [self.groups[k].group for k in readers]
        made = way(end, self.groups[key].group, groups, self.dependencies.producers, self.rank)
        if made is None:
            return
        after = (made.keeper, *made.takers)
        verdicts = [judge(one, self.context) for one in after]
        before = sum(self.groups[k].verdict.seconds for k in (key, *readers))
        if sum(verdict.seconds for verdict in verdicts) < before:
            self.groups.update(zip((key, *readers), map(Part, after, verdicts), strict=True))
            self.group_of.update(dict.fromkeys(made.moved, readers[0]))

    def _readers(self, value: Node) -> list[int]:
        """The groups that read a value which they do not compute."""
        readers = self.dependencies.users[value]
        groups = ((key, {*self.groups[key].group.nodes}) for key in sorted(self.groups))
        return [key for key, nodes in groups if value not in nodes and nodes & readers]

    def _narrow(self, group: Group) -> dict[Node, None]:
        """The elementwise operations of a group that need none of its others and have fewer
        elements than it has by NARROW, in order."""
        hints = self.context.hints
        counts = {node: hints.value(node.type.count) for node in group.nodes}
        most = max(counts.values()) // NARROW
        found: dict[Node, None] = {}
        for node in group.nodes:
            own = [p for p in self.dependencies.producers[node] if p in counts]
            is_elementwise = isinstance(node.operation, Pointwise)
            if is_elementwise and counts[node] <= most and all(p in found for p in own):
                found[node] = None
        return found

    def ordered(self) -> tuple[Part, ...]:
        """The groups in an order in which each runs after those it reads from."""
        done: dict[int, None] = {}

        def visit(key: int) -> None:
            if key not in done:
                for below in sorted(self._below(key)):
                    visit(below)
                done[key] = None

        for key in sorted(self.groups):
            visit(key)
        return tuple(self.groups[key] for key in done)

    def _try(self, keys: frozenset[int]) -> bool:
        """Join groups if one kernel plan does them all, in less time than apart."""
        if len(keys) < 2 or self._cyclic(keys):
            return False
        nodes = tuple(
            sorted((n for k in keys for n in self.groups[k].group.nodes), key=self.rank.__getitem__)
        )
        if any(_is_call(n) for n in nodes):
            return False
        group = self.dependencies.group(nodes)
        verdict = judge(group, self.context)
        apart = sum(self.groups[k].verdict.seconds for k in keys)
        if not verdict.steps or verdict.seconds >= apart:
            return False
        target = min(keys)
        for key in keys:
            del self.groups[key]
        self.groups[target] = Part(group, verdict)
        for node in nodes:
            self.group_of[node] = target
        return True

    def _below(self, key: int) -> set[int]:
        """The groups a group reads from."""
        own = set(self.groups[key].group.nodes)
        found = {
            self.group_of[p]
            for node in own
            for p in self.dependencies.producers[node]
            if p not in own
        }
        return found - {key}

    def _cyclic(self, keys: frozenset[int]) -> bool:
        """Whether something outside would have to run both after and before the joined group."""
        stack = [below for key in keys for below in self._below(key) if below not in keys]
        seen: set[int] = set()
        while stack:
            key = stack.pop()
            if key in seen:
                continue
            seen.add(key)
            for below in self._below(key):
                if below in keys:
                    return True
                stack.append(below)
        return False

    def _bytes(self, key: int) -> int:
        hints = self.context.hints
        results = self.groups[key].group.results
        return sum(hints.value(self.context.buffers[r].bytes) for r in results)

    def _sharing(self) -> list[frozenset[int]]:
        readers: dict[Node, list[int]] = {}
        for key, part in self.groups.items():
            sources = {
                source for node in part.group.nodes for source in _sources(node, self.group_of)
            }
            for source in sources:
                if self.group_of.get(source) != key:
                    readers.setdefault(source, []).append(key)
        pairs: dict[frozenset[int], None] = {}
        for keys in readers.values():
            for i, first in enumerate(sorted(keys)):
                for second in sorted(keys)[i + 1 :]:
                    pairs[frozenset((first, second))] = None
        return sorted(pairs, key=sorted)


def _is_call(node: Node) -> bool:
    """Whether only a library computes a node: nothing shares a kernel with it."""
    return isinstance(node.operation, LibraryCall) and node.operation is not CONVOLUTION


def _sources(node: Node, computed: dict[Node, int]) -> set[Node]:
    """The values in memory, computed or handed in, that an operation reads through views."""
    found: set[Node] = set()
    stack = list(node.operands)
    while stack:
        operand = stack.pop()
        if operand in computed or not operand.operands:
            found.add(operand)
        else:
            stack.extend(operand.operands)
    return found
