"""Names that would not survive as names of the generated Python module."""

from __future__ import annotations

import keyword

from fusegen.errors import Span
from fusegen.frontend.values import Problem

# The attributes of torch.nn.Module (2.13) that do not start with two underscores: a member of the
# same name would take their place. A test compares them with PyTorch's.
_ATTRIBUTES = """
T_destination _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl
_forward_hooks _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks
_forward_pre_hooks_with_kwargs _get_backward_hooks _get_backward_pre_hooks _get_name
_is_full_backward_hook _load_from_state_dict _load_state_dict_post_hooks
_load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules _named_members
_non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook
_register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward
_state_dict_hooks _state_dict_pre_hooks _version _wrapped_call_impl add_module apply bfloat16
buffers call_super_init children compile cpu cuda double dump_patches eval extra_repr float
forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules
mtia named_buffers named_children named_modules named_parameters parameters
register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu
zero_grad
"""
# What the generated module's text uses as globals, Python's own functions among them: a class of
# the same name would hide them. A test compares them with the text.
_GLOBALS = """
Any Callable F KeyError NamedTuple NotImplementedError Path RuntimeError Sequence Tensor TypeError
all any bool ctypes dict enumerate find_libraries float functools getattr hasattr int isinstance
iter len list min next nn object range reference reference_training staticmethod str super
threading torch tuple type zip _COMMAND _Chain _DERIVED _DEVICE _DTYPES _Derived _Dtypes _FOLDER
_Form _Gradient _INFERENCE _LOADED _NAMESPACES _ONE_AT_A_TIME _Operators _TRAINING _WITHOUT
_allows_tf32 _autograd _autograd_of_reference _by_dtype _compute_tensors _gathered _given
_in_training _is_transformed _is_under_transforms _load _load_derived _load_without _mark_results
_members _members_training _on_one_device _operators _refuse _refuse_second_derivative _run _saves
_under_autocast _update_statistics _wanted_bit _wanted_only
"""
# How further ones begin, of which there are as many as a model has dtypes and kinds of autocast.
_PREFIXES = ("_empty_", "_INFERENCE_", "_TRAINING_")
MODULE_ATTRIBUTES = frozenset(_ATTRIBUTES.split())
_NAMED_GLOBALS = frozenset(_GLOBALS.split())

# What the constructor takes beside the model's arguments, as the layers of torch.nn do.
CONSTRUCTOR_ARGUMENTS = frozenset({"device", "dtype"})


def is_module_global(name: str) -> bool:
    """Whether the generated module's text may use a global of that name."""
    return name in _NAMED_GLOBALS or name.startswith(_PREFIXES)


def check_member(name: str, span: Span) -> None:
    """Raise Problem for a layer, parameter or buffer that cannot be an attribute of its name."""
    if name in MODULE_ATTRIBUTES:
        raise Problem(
            f"'{name}' cannot be the name of a layer, parameter or buffer: every PyTorch module "
            "has an attribute of that name",
            span,
            _instead(name),
        )
    _check(name, span, "it becomes an attribute of the module")


def check_model(name: str, span: Span) -> None:
    """Raise Problem for a model that cannot be a class of its name."""
    if is_module_global(name):
        raise Problem(
            f"'{name}' cannot be the name of a model: the generated Python module uses that name",
            span,
            _instead(name),
        )
    _check(name, span, "it becomes a Python class")


def check_argument(name: str, span: Span) -> None:
    """Raise Problem for a model's argument that the constructor cannot take by its name."""
    if name in CONSTRUCTOR_ARGUMENTS:
        raise Problem(
            f"'{name}' cannot be an argument of a model: every module's constructor has one of "
            "that name already",
            span,
            _instead(name),
        )
    _check(name, span, "it becomes an argument of the module's constructor")


def check_input(name: str, span: Span) -> None:
    """Raise Problem for an input that `forward` cannot have as a parameter of its name."""
    if name == "self":
        raise Problem(
            "'self' cannot be the name of an input: it is the module's own in 'forward'",
            span,
            _instead(name),
        )
    _check(name, span, "it becomes a parameter of 'forward'")


def _check(name: str, span: Span, use: str) -> None:
    if keyword.iskeyword(name):
        raise Problem(
            f"'{name}' is a keyword of Python and cannot be a name here: {use}",
            span,
            _instead(name),
        )
    if name.startswith("__"):
        raise Problem(
            f"'{name}' starts with two underscores, which Python treats in its own way: {use}",
            span,
            "start the name with a letter",
        )


def _instead(name: str) -> str:
    return f"choose another name, such as '{name}_'"
