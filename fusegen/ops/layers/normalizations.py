"""Normalisation layers."""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import Integer
from fusegen.ops import build
from fusegen.ops.composite import normalizations
from fusegen.ops.composite.normalizations import batch_statistics, group_size
from fusegen.ops.construct import call
from fusegen.ops.parameters import flag, floating, integer, sizes
from fusegen.ops.record import Layer, LayerTensor, OperationError

_EPS = floating("eps", 1e-5)
_MOMENTUM = replace(floating("momentum", 0.1), or_none=True)  # None: the mean over all batches


def _affine(shape: tuple[int, ...], wanted: bool, bias: bool = True) -> tuple[LayerTensor, ...]:
    tensors = (LayerTensor("weight", shape), LayerTensor("bias", shape))
    return tensors[: wanted * (1 + bias)]


def _group_norm_tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
    channels = attributes.integer("num_channels")
    group_size(Integer.of(channels), attributes.integer("num_groups"))
    return _affine((channels,), attributes.flag("affine"))


def _group_norm(
    inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
) -> Node:
    (x,) = inputs
    channels = attributes.integer("num_channels")
    if x.type.rank < 2 or x.shape[1] != Integer.of(channels):
        raise OperationError(
            f"GroupNorm for {channels} channels got {x.type}", "dim 1 is the channels"
        )
    return call(
        normalizations.GROUP_NORM,
        (x, tensors.get("weight"), tensors.get("bias")),
        num_groups=attributes.integer("num_groups"),
        eps=attributes["eps"],
    )


GROUP_NORM = Layer(
    "GroupNorm",
    (integer("num_groups"), integer("num_channels"), _EPS, flag("affine", True)),
    tensors=_group_norm_tensors,
    apply=_group_norm,
    summary=normalizations.GROUP_NORM.summary,
)


def _normalized_shape(attributes: Attributes) -> tuple[int, ...]:
    shape = tuple(size.constant for size in attributes.sizes("normalized_shape"))
    found = tuple(size for size in shape if size is not None)
    if len(found) < len(shape):
        raise OperationError("normalized_shape must be constant", "use an argument of the model")
    return found


def _layer_norm_tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
    return _affine(
        _normalized_shape(attributes),
        attributes.flag("elementwise_affine"),
        attributes.flag("bias"),
    )


def _layer_norm(
    inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
) -> Node:
    return call(
        normalizations.LAYER_NORM,
        (*inputs, tensors.get("weight"), tensors.get("bias")),
        normalized_shape=_normalized_shape(attributes),
        eps=attributes["eps"],
    )


LAYER_NORM = Layer(
    "LayerNorm",
    (sizes("normalized_shape"), _EPS, flag("elementwise_affine", True), flag("bias", True)),
    tensors=_layer_norm_tensors,
    apply=_layer_norm,
    summary=normalizations.LAYER_NORM.summary,
)


def _rms_norm_tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
    affine = attributes.flag("elementwise_affine")
    return _affine(_normalized_shape(attributes), affine, bias=False)


def _rms_norm(
    inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
) -> Node:
    return call(
        normalizations.RMS_NORM,
        (*inputs, tensors.get("weight")),
        normalized_shape=_normalized_shape(attributes),
        eps=attributes["eps"],
    )


RMS_NORM = Layer(
    "RMSNorm",
    (sizes("normalized_shape"), floating("eps", None), flag("elementwise_affine", True)),
    tensors=_rms_norm_tensors,
    apply=_rms_norm,
    summary=normalizations.RMS_NORM.summary,
)


def _instance_norm_tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
    if attributes.flag("track_running_stats"):
        raise OperationError(
            "instance norm by running statistics is not supported", "leave track_running_stats out"
        )
    return _affine((attributes.integer("num_features"),), attributes.flag("affine"))


def _instance_norm(rank: int) -> Layer:
    name = f"InstanceNorm{rank}d"

    def apply(
        inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
    ) -> Node:
        (x,) = inputs
        if x.type.rank not in (rank + 1, rank + 2):
            raise OperationError(f"{name} needs an input of rank {rank + 2}, and got {x.type}")
        batched = x if x.type.rank == rank + 2 else build.reshape(x, (1, *x.shape))
        weight, bias = tensors.get("weight"), tensors.get("bias")
        operands = (batched, None, None, weight, bias)
        result = call(normalizations.INSTANCE_NORM, operands, eps=attributes["eps"])
        return build.reshape(result, x.shape)

    return Layer(
        name,
        (
            integer("num_features"),
            _EPS,
            _MOMENTUM,
            flag("affine"),
            flag("track_running_stats"),
        ),
        tensors=_instance_norm_tensors,
        apply=apply,
        summary=normalizations.INSTANCE_NORM.summary,
    )


def _batch_norm_tensors(attributes: Attributes) -> tuple[LayerTensor, ...]:
    shape = (attributes.integer("num_features"),)
    affine = _affine(shape, attributes.flag("affine"))
    if not attributes.flag("track_running_stats"):
        return affine
    return (
        *affine,
        LayerTensor("running_mean", shape, trained=False),
        LayerTensor("running_var", shape, trained=False),
        LayerTensor("num_batches_tracked", (), trained=False, dtype=DType.INT64),
    )


def _batch_norm(rank: int) -> Layer:
    name = f"BatchNorm{rank}d"
    ranks = (2, 3) if rank == 1 else (rank + 2,)

    def apply(
        inputs: tuple[Node, ...], tensors: dict[str, Node], attributes: Attributes, training: bool
    ) -> Node:
        (x,) = inputs
        if x.type.rank not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise OperationError(f"{name} needs an input of rank {wanted}, and got {x.type}")
        own_batch = training or "running_mean" not in tensors
        running = () if own_batch else (tensors["running_mean"], tensors["running_var"])
        operands = (x, *(running or (None, None)), tensors.get("weight"), tensors.get("bias"))
        return call(normalizations.BATCH_NORM, operands, training=own_batch, eps=attributes["eps"])

    return Layer(
        name,
        (
            integer("num_features"),
            _EPS,
            _MOMENTUM,
            flag("affine", True),
            flag("track_running_stats", True),
        ),
        tensors=_batch_norm_tensors,
        apply=apply,
        summary=normalizations.BATCH_NORM.summary,
        statistics=batch_statistics,
    )


LAYERS = (
    GROUP_NORM,
    LAYER_NORM,
    RMS_NORM,
    *(_instance_norm(rank) for rank in (1, 2, 3)),
    *(_batch_norm(rank) for rank in (1, 2, 3)),
)
