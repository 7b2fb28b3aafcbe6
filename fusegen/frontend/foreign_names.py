"""Names that people write by habit, from PyTorch or other languages, and what to write here."""

from __future__ import annotations

from collections.abc import Collection

_CONSTANTS = {"true": "True", "false": "False", "none": "None", "null": "None"}

# PyTorch's other names for what is here, or what does the same.
_SYNONYMS = {
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "dot": "matmul",
    "max": "amax",
    "min": "amin",
    "mm": "matmul",
    "movedim": "permute",
    "multiply": "mul",
    "mv": "matmul",
    "negative": "neg",
    "power": "pow",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "swish": "silu",
    "Swish": "SiLU",
    "true_divide": "div",
    "view": "reshape",
}

# What of PyTorch is not here, and how it is written.
_PHRASES = {
    "AdaptiveAvgPool1d": "of size 1 it is mean(x, dim=2, keepdim=True)",
    "AdaptiveAvgPool2d": "of size 1 it is mean(x, dim=(2, 3), keepdim=True)",
    "AdaptiveAvgPool3d": "of size 1 it is mean(x, dim=(2, 3, 4), keepdim=True)",
    "adaptive_avg_pool1d": "of size 1 it is mean(x, dim=2, keepdim=True)",
    "adaptive_avg_pool2d": "of size 1 it is mean(x, dim=(2, 3), keepdim=True)",
    "adaptive_avg_pool3d": "of size 1 it is mean(x, dim=(2, 3, 4), keepdim=True)",
    "arange": "hand it in as an input, or declare a Buffer",
    "cosine_similarity": "divide sum(x * y, dim=...) by norm(x, dim=...) * norm(y, dim=...)",
    "masked_fill": "write where(mask, value, x)",
    "normalize": "write x / maximum(norm(x, dim=..., keepdim=True), 1e-12)",
    "ones": "a number takes the shape of what it meets",
    "ones_like": "a number takes the shape of what it meets",
    "zeros": "a number takes the shape of what it meets",
    "zeros_like": "a number takes the shape of what it meets",
}

# Operations of PyTorch that are not here, though a name like theirs may be.
_MISSING = frozenset(
    {
        "PReLU",
        "Embedding",
        "cross_entropy",
        "cumprod",
        "cumsum",
        "einsum",
        "embedding",
        "fmod",
        "gather",
        "glu",
        "index_select",
        "inner",
        "interpolate",
        "lerp",
        "mse_loss",
        "outer",
        "pad",
        "prelu",
        "scaled_dot_product_attention",
        "sort",
        "tile",
        "topk",
        "tril",
        "triu",
    }
)

_DTYPES = {
    "bf16": "bfloat16",
    "double": "float64",
    "float": "float32",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}


def written_here(name: str, builtins: Collection[str]) -> str | None:
    """The hint for an unknown name that means something elsewhere; `builtins` are those that do
    here."""
    if name in _CONSTANTS:
        return f"write {_CONSTANTS[name]}"
    if _SYNONYMS.get(name) in builtins:
        return f"it is called '{_SYNONYMS[name]}' here"
    if name in ("Sequential", "ModuleList"):
        return "bind each layer to a name, and pipe: x |> first |> second"
    if name in _PHRASES and name not in builtins:
        return _PHRASES[name]
    if name in _MISSING and name not in builtins:
        return "PyTorch has it, fusegen does not: compute it outside of the model"
    return None


def dtype_here(name: str) -> str | None:
    """The hint for another name of a dtype."""
    return f"it is called '{_DTYPES[name]}' here" if name in _DTYPES else None
