"""What dropouts become: nothing in evaluation, numbered operations on a seed in training."""

from __future__ import annotations

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder, Role, topological
from fusegen.ops.composite.dropout import RECORDS
from tests.frontend.programs import elaborated

MODEL = """\
model Main:
    input x: [b, 6, 4]
    block = Block()
    drop = Dropout(0.2)
    none = Dropout(0)
    return x |> drop |> drop |> none |> block |> twice

model Block:
    input x: [b, 6, 4]
    inner = Dropout1d(0.3)
    scale = Parameter([4])
    return inner(x) * dropout(scale, 0.4)

fn twice(t) = dropout(dropout(t), p=1)
"""


def graph(training: bool) -> Graph:
    return elaborated(MODEL, model="Main", training=training).graph


def dropouts(graph: Graph) -> list[Node]:
    return [node for node in topological(graph.roots) if node.operation in RECORDS]


def test_evaluation_has_none() -> None:
    found = graph(training=False)
    assert dropouts(found) == [] and found.dropping == ()
    assert [getattr(node.operation, "path", "") for node in found.tensors] == ["block.scale"]


def test_training_numbers_them_in_order() -> None:
    """Each use has a number, a probability of 0 none; the declaration of a model counts nothing."""
    found = dropouts(graph(training=True))
    arguments = {node.attributes["number"]: node.attributes["p"] for node in found}
    assert arguments == {0: 0.2, 1: 0.2, 2: 0.3, 3: 0.4, 4: 0.5, 5: 1.0}
    assert [node.attributes["mask_rank"] for node in found].count(2) == 1


def test_they_share_a_seed_which_is_the_last_tensor() -> None:
    found = graph(training=True)
    seed = found.tensors[-1]
    assert isinstance(seed.operation, Placeholder) and seed.operation.role is Role.SEED
    assert seed.shape == () and seed.dtype is DType.INT64
    assert {node.operands[1] for node in dropouts(found)} == {seed}


def test_whose_mode_decides() -> None:
    """A layer's own, a function's that of the model it stands in."""
    assert graph(training=True).dropping == ("drop", "block.inner", "block", "")
