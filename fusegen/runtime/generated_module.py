"""`nn.Module` classes whose operators are built when a tensor first needs them."""

from __future__ import annotations

import ast
import copyreg
import hashlib
import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from keyword import iskeyword
from types import ModuleType
from typing import Any, cast

from torch import nn

from fusegen.errors import FusegenError
from fusegen.runtime.loader import find_libraries
from fusegen.runtime.request import BuildRequest


@dataclass(frozen=True)
class Blueprint:
    """A model with its arguments fixed: the text of its Python module, the class in it, and what
    to build for a variant such as `mlp_float32`.

    `key` tells apart builds for which the text is the same.
    """

    text: str
    class_name: str
    key: str
    request: Callable[[str], BuildRequest]


# For annotations where torch must not be imported.
NnModuleClass = type[nn.Module]

ModelArgument = bool | int | float | str
FACTORY = ("device", "dtype")  # arguments of every layer of torch.nn
_ONE_AT_A_TIME = threading.Lock()
Draw = Callable[[Mapping[str, ModelArgument]], Blueprint]


@dataclass(frozen=True)
class OpenModel:
    """A model whose arguments are still open: their names in order with the text of their defaults
    (None without one), what gives the blueprint for some of them (the others having their
    defaults), what gives its class in another process (an importable function and its arguments),
    and the classes made so far."""

    arguments: Mapping[str, str | None]
    draw: Draw
    recipe: tuple[Callable[..., type[nn.Module]], tuple[object, ...]]
    fixed: dict[tuple[object, ...], type[nn.Module]] = field(default_factory=dict)


class ModelClass(type):
    """The class of a model whose arguments are still open.

    Calling it with the model's arguments, and `device` and `dtype` as for any layer of `torch.nn`,
    gives a module: an instance of a subclass with these arguments fixed.
    """

    __open__: OpenModel

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        """FusegenError for a class derived from one whose arguments are open, which has no
        forward."""
        super().__init__(name, bases, namespace)
        is_ours = "__open__" in namespace or "__fixed__" in namespace
        opened = [base.__name__ for base in bases if "__open__" in base.__dict__]
        if opened and not is_ours:
            raise FusegenError(
                f"'{name}' cannot be derived from '{opened[0]}', whose arguments are open",
                f"derive it from type({opened[0]}(...)), or give it a {opened[0]} as an attribute",
            )

    def __call__(cls, /, *values: ModelArgument, **keywords: Any) -> Any:
        """A module; FusegenError for arguments that the model does not take, SourceError where the
        source is wrong for these."""
        if "__open__" not in cls.__dict__:  # a subclass: its arguments are fixed
            return super().__call__(*values, **keywords)
        factory = {k: keywords.pop(k) for k in FACTORY if k in keywords}
        return cls.with_arguments(cls._bound(values, keywords))(**factory)

    @property
    def __signature__(cls) -> inspect.Signature:
        """How the class is called, for `inspect.signature`, `help` and editors: with the model's
        arguments, or with `device` and `dtype` alone where these are fixed."""
        if "__open__" not in cls.__dict__:
            own = inspect.signature(inspect.getattr_static(cls, "__init__"))
            return own.replace(parameters=tuple(own.parameters.values())[1:])
        either, keyword = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
        parameters: list[Parameter] = []
        defaults = False
        late = False  # one without a default behind one with: Python has only keywords for it
        named = cls.__open__.arguments.items()
        for name, text in ((n, t) for n, t in named if n not in FACTORY and not iskeyword(n)):
            defaults |= text is not None
            late |= text is None and defaults
            default = Parameter.empty if text is None else _default(text)
            parameters.append(Parameter(name, keyword if late else either, default=default))
        factory = [Parameter(name, keyword, default=None) for name in FACTORY]
        return inspect.Signature([*parameters, *factory])

    def with_arguments(cls, arguments: Mapping[str, ModelArgument]) -> type[nn.Module]:
        """The subclass that has these arguments fixed, always the same for the same ones."""
        arguments = {name: _plain(value) for name, value in arguments.items()}
        if not all(isinstance(value, ModelArgument) for value in arguments.values()):
            return cls._fix(arguments)  # which refuses them
        key = tuple((name, type(value), value) for name, value in sorted(arguments.items()))
        if key not in cls.__open__.fixed:
            cls.__open__.fixed.setdefault(key, cls._fix(arguments))
        return cls.__open__.fixed[key]

    def _bound(
        cls, values: tuple[ModelArgument, ...], keywords: Mapping[str, ModelArgument]
    ) -> dict[str, ModelArgument]:
        names = tuple(cls.__open__.arguments)
        if len(values) > len(names):
            most = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
            raise FusegenError(f"model '{cls.__name__}' takes {most}, not {len(values)}")
        arguments = dict(zip(names, values, strict=False))
        for name, value in keywords.items():
            if name in arguments:
                raise FusegenError(f"argument '{name}' of model '{cls.__name__}' is given twice")
            arguments[name] = value
        return arguments

    def _fix(cls, arguments: Mapping[str, ModelArgument]) -> type[nn.Module]:
        blueprint = cls.__open__.draw(arguments)
        generated = generated_module(blueprint)
        emitted = getattr(generated, blueprint.class_name)
        names = {
            "__doc__": emitted.__doc__,
            "__module__": generated.__name__,
            "__fixed__": (cls, dict(arguments)),
        }
        return cast("type[nn.Module]", ModelClass(cls.__name__, (emitted, cls), names))


class _Written(str):
    """A default that depends on other arguments, shown as it is written."""

    __slots__ = ()
    __repr__ = str.__str__


def _default(text: str) -> Any:
    """What a signature shows for a default: a value, or how it is computed."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _Written(text)


def _plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value


def _reduced(cls: ModelClass) -> Any:
    """How pickle writes a class that exists in this process only: what makes it in another. A
    class that a user derived from one is found by its name, as any other is."""
    if "__open__" in cls.__dict__:
        return cls.__open__.recipe
    if "__fixed__" in cls.__dict__:
        return ModelClass.with_arguments, cls.__dict__["__fixed__"]
    return cls.__qualname__


copyreg.pickle(ModelClass, _reduced)


def model_class(name: str, description: str, model: OpenModel) -> type[nn.Module]:
    """The `nn.Module` class of a model with its arguments open."""
    names = {"__doc__": description, "__open__": model}
    return cast("type[nn.Module]", ModelClass(name, (nn.Module,), names))


def generated_module(blueprint: Blueprint) -> ModuleType:
    """The blueprint's text as a Python module, made once in a process.

    It is known to `sys.modules` and `linecache`, so that tracebacks show its lines and
    `torch.compile` finds its globals.
    """
    digest = hashlib.sha256(f"{blueprint.key}\n{blueprint.text}".encode()).hexdigest()[:12]
    name = f"fusegen_generated_{digest}"
    with _ONE_AT_A_TIME:  # nobody shall find a module of which half is there
        if name in sys.modules:
            return sys.modules[name]
        made = ModuleType(name)
        made.__file__ = f"<{blueprint.class_name} generated by fusegen, {digest}>"
        lines = blueprint.text.splitlines(keepends=True)
        linecache.cache[made.__file__] = (len(blueprint.text), None, lines, made.__file__)
        exec(compile(blueprint.text, made.__file__, "exec"), made.__dict__)
        made.__dict__["find_libraries"] = lambda *variants: find_libraries(
            [blueprint.request(variant) for variant in variants]
        )
        sys.modules[name] = made
        return made
