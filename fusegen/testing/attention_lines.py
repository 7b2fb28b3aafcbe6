"""What models with attention are made of: lines with fields, as those of `fusegen.testing.calls`.

`{mask}` and `{bias}` are inputs that broadcast to the scores, `{row}` and `{column}` the positions
of queries and keys, and `{like}` an input of the type of `{x}`.
"""

from __future__ import annotations

# What becomes of scores before the softmax.
SCORES = (
    *("{v} = {x} * {number}", "{v} = {x} / sqrt({depth})", "{v} = {x} + {bias}"),
    *("{v} = {x} * {bias}", "{v} = {x} - {bias} * {number}"),
    *("{v} = where({mask}, {x}, -inf)", "{v} = where({mask}, -inf, {x})"),
    *("{v} = where({mask}, {x}, -1e4)", "{v} = where({mask}, {x}, {bias})"),
    "{v} = where({row} >= {column}, {x}, -inf)",
    "{v} = where(abs({row} - {column}) < 4, {x}, -inf)",
    "{v} = {x} + {bias} * ({column} - {row})",
    *("{v} = 20 * tanh({x} / 20)", "{v} = {x} |> relu", "{v} = {x} |> softplus"),
)
SOFTMAX = ("{v} = softmax({x}, dim=-1)",)
# The same in other words, and weights that are none, or are made into something else.
NEAR = (
    *("{v} = softmax({x}, dim=-2)", "{v} = log_softmax({x}, dim=-1)"),
    *("{v} = softmax({x}, dim=-1) * {bias}", "{v} = where({mask}, softmax({x}, dim=-1), 0)"),
    *("{v} = softmax({x}, dim=-1) |> dropout({p})", "{v} = softmax({x}, dim=-1) ** 2"),
    "{v} = softmax({x} - mean({x}, dim=-1, keepdim=True), dim=-1)",
    "{v}_power = exp({x} - amax({x}, dim=-1, keepdim=True))\n"
    "{v} = {v}_power / sum({v}_power, dim=-1, keepdim=True)",
    "{v}_power = exp({x} - amax({x}, dim=-1, keepdim=True))\n"
    "{v} = {v}_power / (1 + sum({v}_power, dim=-1, keepdim=True))",
    *("{v} = exp({x} - logsumexp({x}, dim=-1, keepdim=True))", "{v} = sigmoid({x})"),
    "{v} = {x} / sum({x}, dim=-1, keepdim=True)",
)
CONVERTED = (
    "{v} = to(softmax(to({x}, float32), dim=-1), {own_dtype})",
    "{v} = to(to(softmax({x}, dim=-1), float32) * {number}, {own_dtype})",
    "{v} = to(to(softmax({x}, dim=-1), float64), {own_dtype})",
)
OPERANDS = (
    *("{v} = {x} * {number}", "{v} = rms_norm({x}, ({last},), eps=0.1)", "{v} = {x} |> relu"),
    "{v} = {x} + {like}",
)
RESULTS = (
    *("{v} = {x} + {like}", "{v} = {x} * {like}"),
    "{v}_layer = Linear({last}, {width})\n{v} = {v}_layer({x})",
    "{v}_scale = Parameter([{last}])\n{v} = {x} * {v}_scale",
    "{v}_norm = LayerNorm({last})\n{v} = {v}_norm({x})",
)
# What a model returns beside its result.
OTHERS = ("{v} = {x} * 1", "{v} = logsumexp({x}, dim=-1)", "{v} = amax({x}, dim=-1)")
