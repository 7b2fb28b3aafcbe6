"""Trains a small classifier twice from the same seed, as a generated module and as a plain one,
and plots both losses: they coincide.

Needs scikit-learn for its handwritten digits, and matplotlib: `pip install '.[examples]'`. Runs the
kernels on a GPU if there is one; else PyTorch's operations, or the kernels with --target emulate.
With --autocast bfloat16 or float16, both are trained under autocast, float16 with scaled losses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

import fusegen

MODEL = Path(__file__).parent / "digits_mlp.fuse"
BATCH = 64
TEST_IMAGES = 297  # the last ones


class PlainMlp(nn.Module):
    """The same classifier by hand."""

    def __init__(self, pixels: int = 64, hidden: int = 128, classes: int = 10) -> None:
        super().__init__()
        self.fc1 = nn.Linear(pixels, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.norm(self.fc1(x)))
        result: Tensor = self.fc3(nn.functional.gelu(self.fc2(hidden)))
        return result


def digits(device: str) -> tuple[Tensor, Tensor]:
    """All 1797 images, one a row, of values from 0 to 1, and which digits they show."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).flatten(1) / 16
    return images.to(device), torch.tensor(data.target).to(device)


def train(
    module: nn.Module,
    images: Tensor,
    labels: Tensor,
    steps: int,
    autocast: torch.dtype | None = None,
) -> list[float]:
    """The loss of each step; the batches are the same in every call."""
    device = images.device.type
    scaler = torch.amp.GradScaler(device, enabled=autocast is torch.float16)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        chosen = torch.randint(0, len(images), (BATCH,), generator=generator).to(images.device)
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            loss = nn.functional.cross_entropy(module(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def accuracy(module: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of images whose digit the module tells."""
    with torch.no_grad():
        return (module(images).argmax(1) == labels).float().mean().item()


def plot(curves: dict[str, list[float]], path: Path) -> None:
    """Both curves, the second as dots on the first."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for (name, losses), style in zip(curves.items(), ("-", "."), strict=True):
        axes.plot(range(1, len(losses) + 1), losses, style, label=name)
    axes.set(xlabel="step", ylabel="loss", yscale="log", title="Handwritten digits")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--target", choices=["cuda", "emulate"], default="cuda")
    parser.add_argument("--autocast", choices=["bfloat16", "float16"])
    parser.add_argument("--plot", type=Path, default=Path("train_mlp.png"))
    options = parser.parse_args()

    on_gpu = options.target == "cuda" and torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    torch.manual_seed(0)
    generated = fusegen.load(MODEL, target=options.target)().to(device)
    torch.manual_seed(0)
    plain = PlainMlp().to(device)  # the same initial values, drawn in the same order

    autocast = getattr(torch, options.autocast) if options.autocast else None
    images, labels = digits(device)
    curves = {}
    for name, module in (("generated", generated), ("plain", plain)):
        curves[name] = train(
            module, images[:-TEST_IMAGES], labels[:-TEST_IMAGES], options.steps, autocast
        )
        share = accuracy(module, images[-TEST_IMAGES:], labels[-TEST_IMAGES:])
        print(f"{name}: loss {curves[name][-1]:.6f}, accuracy on new images {share:.1%}")
    difference = max(abs(a - b) for a, b in zip(*curves.values(), strict=True))
    print(f"greatest difference between the losses: {difference:.1e}")
    plot(curves, options.plot)
    print(f"both curves: {options.plot}")


if __name__ == "__main__":
    main()
