"""From a source to an `nn.Module` class that builds its operators when they are first needed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fusegen.compiler.specialisation import MODULE_DTYPES, Specialisation
from fusegen.compiler.variant import (
    autocast_keys,
    key_named,
    make_variant,
    tf32_dtypes,
    variant_keys,
)
from fusegen.frontend import Source, parse
from fusegen.frontend.elaborate import ArgumentValue
from fusegen.ops.autocast import Device
from fusegen.plan.cost import device_for
from fusegen.plan.preferences import UNTUNED, Preferences
from fusegen.runtime.gpu import default_architectures
from fusegen.runtime.request import BuildRequest, Target
from fusegen.runtime.tuned_tiles import tuned_here

if TYPE_CHECKING:
    from fusegen.runtime.generated_module import Blueprint, NnModuleClass


def load_model(
    source: Source, *, model: str | None = None, target: Target = Target.CUDA, check: bool = False
) -> NnModuleClass:
    """The class of a source's model, in this process always the same one; `check` builds emulated
    kernels for the checker.

    Its arguments are checked when it is called. Raises SourceError for what is wrong whatever
    they are, and FusegenError if there is no such model.
    """
    return restored_model(source.filename, source.text, model, target.value, check)


@functools.cache
def restored_model(
    filename: str, text: str, model: str | None, target: str, check: bool
) -> NnModuleClass:
    """The same. Pickled modules name this function and its arguments, so both must stay."""
    from fusegen.runtime.generated_module import OpenModel, model_class

    source = Source(filename, text)
    program = parse(source)
    definition = program.choose_model(model)
    parameters = {
        parameter.name.text: program.text_at(parameter.default.span) if parameter.default else None
        for parameter in definition.parameters
    }

    def draw(arguments: Mapping[str, ArgumentValue]) -> Blueprint:
        chosen = Specialisation.of(source, model, arguments)
        return blueprint(chosen, Target(target), check)

    description = program.comment_above(definition)
    recipe = restored_model, (filename, text, model, target, check)
    return model_class(definition.name.text, description, OpenModel(parameters, draw, recipe))


def blueprint(
    chosen: Specialisation,
    target: Target,
    check: bool = False,
    preferences: Preferences | None = None,
) -> Blueprint:
    """What the runtime needs to make modules of a specialisation.

    Without `preferences`, what was tuned on this machine's card counts where kernels run there, as
    it is when they are built.
    """
    from fusegen.runtime.generated_module import Blueprint

    device = Device.CUDA if target is Target.CUDA else Device.CPU
    autocasts = chosen.autocasts(device)
    keys = (*variant_keys(chosen, MODULE_DTYPES), *autocast_keys(chosen, autocasts))

    def request(name: str) -> BuildRequest:
        architectures = default_architectures() if target is Target.CUDA else ()
        key = key_named(chosen, keys, name)
        preferred = preferences
        if preferred is None:
            preferred = tuned_here() if target is Target.CUDA else UNTUNED
        made = make_variant(chosen, key, preferred, device_for(architectures))
        return made.request(target, architectures, check)

    text = chosen.python_source(device.value, None, tf32_dtypes(keys), autocasts=autocasts)
    return Blueprint(
        text=text,
        class_name=chosen.name,
        key=f"{target.value} {check}" + ("" if preferences is None else f" {preferences}"),
        request=request,
    )
