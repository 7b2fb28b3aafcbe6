"""Runs graphs through passes, planner, code generator, g++ and the emulator, without the binding.

`run(graph, tensors)` is all that most tests need. `build` compiles the kernels of several graphs
together, which is quicker than one by one.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fusegen import emulator, resources
from fusegen.codegen.cuda import cuda_source
from fusegen.codegen.kernel_text import Signature
from fusegen.emulator import EmulatorRuntime
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Attributes, Graph, Node, Output, Placeholder, Role, TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.construct import call
from fusegen.ops.record import Record
from fusegen.ops.registry import FUNCTIONS
from fusegen.passes import pipeline
from fusegen.plan.cost import H100, Device, SizeHints
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, in_place_of
from fusegen.plan.module import plan_module
from fusegen.plan.precision import Precision
from fusegen.runtime.emulation import emulation
from fusegen.runtime.loader import emulator_runtime
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

Size = int | str | Integer


def tensor_type(*shape: Size, dtype: DType = DType.FLOAT32) -> TensorType:
    """A tensor type; sizes given by a name are symbolic."""
    sizes = tuple(Integer.symbol(s) if isinstance(s, str) else Integer.of(s) for s in shape)
    return TensorType(sizes, dtype)


def value(name: str, *shape: Size, dtype: DType = DType.FLOAT32, role: Role = Role.INPUT) -> Node:
    """An input of a graph, or a parameter or buffer."""
    type = tensor_type(*shape, dtype=dtype)
    return Node(Placeholder("placeholder", role, name), (), Attributes(), type, name)


def apply(name: str, *operands: object, **attributes: object) -> Node:
    """The language's function of that name applied to nodes and numbers."""
    record = FUNCTIONS[name]
    assert isinstance(record, Record)
    return call(record, operands, **attributes)  # type: ignore[arg-type]


def graph(inputs: Sequence[Node], *outputs: Node, name: str = "model") -> Graph:
    """A graph of inputs and results."""
    named = tuple(Output(f"y{i}" if len(outputs) > 1 else "y", o) for i, o in enumerate(outputs))
    return Graph(name, tuple(inputs), (), named)


def planned(
    graph: Graph,
    hints: Mapping[str, int] | None = None,
    precision: Precision = Precision.HIGHEST,
    device: Device = H100,
) -> ModulePlan:
    """The plan for a graph as the user wrote it."""
    hinted = SizeHints(hints) if hints else None
    return plan_module(pipeline.run(graph), DType.FLOAT32, hinted, device, precision=precision)


def cuda_text(plan: ModulePlan) -> str:
    """The `.cu` file of a plan."""
    return cuda_source(plan, (f"{plan.graph.name}.",)).text


@dataclass(frozen=True)
class Kernels:
    """A compiled graph: call it with a tensor for each input, parameter and buffer, in order."""

    plan: ModulePlan
    launchers: Mapping[str, Callable[..., int]]
    signatures: Mapping[str, Signature]
    error_text: Callable[[int], bytes]

    def __call__(
        self, *tensors: torch.Tensor, seed: int = 0, check: bool = False
    ) -> list[torch.Tensor]:
        """The results. With `check`, races, bounds and reads before writes are faults, and so is a
        result of which an element stays unwritten. Raises AssertionError with a fault's report."""
        sizes = self.sizes(tensors)
        memory = {b.name: t for b, t in zip(self.plan.arguments, tensors, strict=True)}
        for buffer in (*self.plan.results, *self.plan.workspaces):
            shape = [size.evaluate(sizes) for size in buffer.shape]
            memory[buffer.name] = poison(torch.empty(shape, dtype=torch_dtype(buffer.dtype)))
        for step in self.plan.steps:
            same = in_place_of(step)
            if same is not None:
                shape = memory[same.written.name].shape
                memory[same.written.name] = memory[same.read.name].view(shape)
        runtime = emulator_runtime()
        with emulation(seed, check):
            runtime.forget_all()
            for name, tensor in memory.items():
                given = any(buffer.name == name for buffer in self.plan.arguments)
                _expose(runtime, tensor, initialised=given)
            for step in self.plan.steps:
                if isinstance(step, LibraryPlan):
                    self._call_library(step, memory, runtime, sizes)
                else:
                    self._launch(step.name, memory, sizes)
            if check:
                called = {s.result.name for s in self.plan.steps if isinstance(s, LibraryPlan)}
                for buffer in self.plan.results:
                    if buffer.name in called:
                        continue  # PyTorch wrote it
                    _require_written(runtime, buffer.name, memory[buffer.name])
        return [memory[buffer.name] for buffer in self.plan.results]

    def sizes(self, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
        """The symbolic sizes' values, which the arguments have."""
        sizes: dict[str, int] = {}
        for buffer, tensor in zip(self.plan.arguments, tensors, strict=True):
            assert tensor.dtype is torch_dtype(buffer.dtype) and tensor.dim() == buffer.type.rank
            for size, actual in zip(buffer.shape, tensor.shape, strict=True):
                if size.constant is None:
                    assert sizes.setdefault(str(size), actual) == actual
                else:
                    assert size.constant == actual
        return sizes

    def _launch(
        self, name: str, memory: Mapping[str, torch.Tensor], sizes: Mapping[str, int]
    ) -> None:
        signature = self.signatures[name]
        arguments: list[object] = []
        for buffer in signature.reads:
            tensor = memory[buffer.name]
            arguments.append(ctypes.c_void_p(tensor.data_ptr()))
            if buffer in signature.strided:
                arguments.append((ctypes.c_int64 * tensor.dim())(*tensor.stride()))
        arguments += [ctypes.c_void_p(memory[b.name].data_ptr()) for b in signature.writes]
        values = [Integer((((size,), 1),)).evaluate(sizes) for size in signature.sizes]
        arguments += [ctypes.c_int64(size) for size in values]
        code = self.launchers[name](*arguments, ctypes.c_void_p())
        assert code == 0, self.error_text(code).decode()

    def _call_library(
        self,
        step: LibraryPlan,
        memory: dict[str, torch.Tensor],
        runtime: EmulatorRuntime,
        sizes: Mapping[str, int],
    ) -> None:
        operands = tuple(value(b.name, *b.shape, dtype=b.dtype) for b in step.operands)
        values = {
            operand: memory[buffer.name].reshape([s.evaluate(sizes) for s in operand.shape])
            for operand, buffer in zip(operands, step.operands, strict=True)
        }
        (result,) = evaluate((replace(step.node, operands=operands),), values, sizes)
        target = memory[step.result.name]
        target.copy_(result.reshape(target.shape))
        _expose(runtime, target, initialised=True)


def run(
    graph: Graph, tensors: Sequence[torch.Tensor], *, seed: int = 0, check: bool = False
) -> list[torch.Tensor]:
    """What the graph's kernels make of the tensors, in the emulator."""
    (kernels,) = build([graph], check=check)
    return kernels(*tensors, seed=seed, check=check)


def build(
    graphs: Sequence[Graph], *, check: bool = False, hints: Mapping[str, int] | None = None
) -> list[Kernels]:
    """The compiled kernels of each graph, all from one `.cu` file."""
    return link([planned(graph, hints) for graph in graphs], check=check)


def link(plans: Sequence[ModulePlan], *, check: bool = False) -> list[Kernels]:
    """The compiled kernels of each plan, all from one `.cu` file."""
    distinct = [_renamed(plan, f"_{i}" if len(plans) > 1 else "") for i, plan in enumerate(plans)]
    steps = tuple(step for plan in distinct for step in plan.steps)
    source = cuda_source(replace(distinct[0], steps=steps), ("Test kernels.",))
    library = _load(source.text, check) if source.launchers else None
    launchers = {name: getattr(library, f"launch_{name}") for name in source.launchers}
    error_text = getattr(library, "fusegen_error_text", lambda code: b"")
    if library is not None:
        error_text.restype = ctypes.c_char_p
    return [Kernels(plan, launchers, source.launchers, error_text) for plan in distinct]


def _renamed(plan: ModulePlan, suffix: str) -> ModulePlan:
    steps = tuple(
        step if isinstance(step, LibraryPlan) else replace(step, name=f"{step.name}{suffix}")
        for step in plan.steps
    )
    return replace(plan, steps=steps)


@functools.cache
def session_folder() -> Path:
    """A folder for what this process compiles, removed at its end; the headers are in it."""
    folder = Path(tempfile.mkdtemp(prefix="fusegen-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in resources.include_files().items():
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@functools.cache
def _load(text: str, check: bool) -> ctypes.CDLL:
    """The library of a `.cu` text, which must compile without a warning."""
    emulator_runtime()  # kernel libraries find its functions among the process's symbols
    name = hashlib.sha256(f"{check}{text}".encode()).hexdigest()[:16]
    source = session_folder() / f"{name}.cu"
    source.write_text(text, encoding="utf-8")
    object_file, library = source.with_suffix(".o"), source.with_suffix(".so")
    include = f"-I{session_folder() / 'include'}"
    compile_quietly("g++", *emulator.compile_flags(check), include, "-c", source, "-o", object_file)
    compile_quietly("g++", *emulator.link_flags(), object_file, "-o", library)
    return ctypes.CDLL(str(library))


def joined_text(plans: Sequence[ModulePlan]) -> str:
    """The kernels of all plans as one `.cu` file."""
    distinct = [_renamed(plan, f"_{i}") for i, plan in enumerate(plans)]
    steps = tuple(step for plan in distinct for step in plan.steps)
    return cuda_source(replace(distinct[0], steps=steps), ("Test kernels.",)).text


def compiles(plans: Sequence[ModulePlan]) -> None:
    """Assert that g++ accepts the kernels of all plans without a warning."""
    source = session_folder() / "syntax.cu"
    source.write_text(joined_text(plans), encoding="utf-8")
    include = f"-I{session_folder() / 'include'}"
    compile_quietly("g++", *emulator.compile_flags(False), include, "-fsyntax-only", source)


def compile_quietly(*command: object) -> None:
    """Run a compiler, which must succeed and have nothing to say."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stderr or done.stdout


def poison(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor filled with values that a result would show: NaN, or a number no test expects."""
    if tensor.dtype.is_floating_point:
        return tensor.fill_(float("nan"))
    return tensor.fill_(True) if tensor.dtype is torch.bool else tensor.fill_(113)


def _expose(runtime: EmulatorRuntime, tensor: torch.Tensor, *, initialised: bool) -> None:
    """Let kernels use a tensor's memory, and no more of its storage."""
    if tensor.numel():
        span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        runtime.expose(tensor.data_ptr(), span * tensor.element_size(), initialised)


def _require_written(runtime: EmulatorRuntime, name: str, tensor: torch.Tensor) -> None:
    if tensor.numel():
        count = tensor.numel() * tensor.element_size()
        offset = runtime.first_unwritten(tensor.data_ptr(), count)
        assert offset is None, f"byte {offset} of the result {name} was never written"
