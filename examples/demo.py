"""Compiles one chain, shows the plan, runs the generated kernels, and compares them with PyTorch.

The kernels run on the GPU if there is one, else in the emulator. The folder that is written,
`build/demo`, needs no fusegen.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

import fusegen
from fusegen import compiler

ROOT = Path(__file__).parents[1]
CHAIN = ROOT / "examples" / "kernelbench" / "l2_88.fuse"
FOLDER = ROOT / "build" / "demo"
ARGUMENTS = {"in_features": 128, "out_features": 256, "num_groups": 8}
BATCH = 32
DTYPES = ("float32", "bfloat16")


def main() -> None:
    target = "cuda" if torch.cuda.is_available() else "emulate"
    source = compiler.read_source(str(CHAIN))
    print(source.text)

    print("The plan:\n")
    print(compiler.explain(source, arguments=ARGUMENTS, sizes={"batch": BATCH}).as_text(), "\n")

    fusegen.compile(CHAIN, FOLDER, arguments=ARGUMENTS, target=target, dtypes=DTYPES)
    print(f"Written to {FOLDER.relative_to(ROOT)}:")
    for path in sorted(FOLDER.iterdir()):
        print(f"  {path.name}")

    print("\nAgainst PyTorch in float64, with the error of PyTorch in the same dtype beside it:")
    for dtype in DTYPES:
        found = compiler.run(
            source, arguments=ARGUMENTS, sizes={"batch": BATCH}, dtype=dtype, target=target
        )
        print(found.as_text())

    module = load_folder().to("cuda" if target == "cuda" else "cpu")
    x = torch.randn(BATCH, ARGUMENTS["in_features"], device=module.multiply_weight.device)
    loss = module(x).square().mean()
    loss.backward()
    print("\nThe module of the folder, used as any other:")
    print(module)
    shape = tuple(module.gemm.weight.grad.shape)
    print(f"loss {loss.item():.4f}; gemm.weight has a gradient of shape {shape}")


def load_folder() -> torch.nn.Module:
    """The module in the folder: plain PyTorch, no fusegen."""
    (file,) = FOLDER.glob("*.py")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    generated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generated)
    module: torch.nn.Module = generated.GemmGroupNormSwishMultiplySwish()
    return module


if __name__ == "__main__":
    main()
