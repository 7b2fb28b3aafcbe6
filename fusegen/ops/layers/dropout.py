"""Dropout layers."""

from __future__ import annotations

from fusegen.ops.composite import dropout
from fusegen.ops.layers.activations import IDENTITY, no_tensors
from fusegen.ops.record import Layer, Stochastic


def _layer(name: str, function: Stochastic) -> Layer:
    return Layer(
        name,
        function.parameters[1:],
        tensors=no_tensors,
        apply=IDENTITY.apply,
        summary=function.summary,
        stochastic=function,
    )


LAYERS = (
    _layer("Dropout", dropout.DROPOUT),
    *(_layer(f"Dropout{rank}d", f) for rank, f in dropout.CHANNEL_DROPOUTS.items()),
)
