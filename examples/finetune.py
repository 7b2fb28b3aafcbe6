"""Puts a generated module into an existing model, loads a checkpoint of that model, and continues.

The checkpoint was written by the model as it was; the generated block has the same parameters by
the same names, so it takes them over, and so does the optimizer its state.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fusegen

MODEL = Path(__file__).parent / "mlp_residual.fuse"
WIDTH = 32
CLASSES = 4


class Block(nn.Module):
    """The residual block by hand."""

    def __init__(self, features: int, expansion: int = 2) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.expand = nn.Linear(features, expansion * features)
        self.contract = nn.Linear(expansion * features, features)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.expand(self.norm(x))
        return x + self.contract(nn.functional.gelu(hidden))


class Classifier(nn.Module):
    """The existing model: an embedding, two blocks, the mean over the positions, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, WIDTH)
        self.first = Block(WIDTH)
        self.second = Block(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        x = self.second(self.first(self.embedding(words).flatten(0, 1)))
        result: Tensor = self.head(x.unflatten(0, words.shape).mean(1))
        return result


def batch(step: int) -> tuple[Tensor, Tensor]:
    """Sentences of 6 words; the class tells how many of them are among the first ten."""
    words = torch.randint(0, 20, (32, 6), generator=torch.Generator().manual_seed(step))
    return words, (words < 10).sum(1) // 2


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, device: str
) -> list[float]:
    """The losses of these steps."""
    losses = []
    for step in steps:
        words, labels = (tensor.to(device) for tensor in batch(step))
        loss = nn.functional.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def new_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """What both trainings use."""
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def with_generated_blocks(target: str) -> Classifier:
    """The existing model with its blocks replaced: the only change to a training script."""
    block = fusegen.load(MODEL, model="Block", target=target)
    model = Classifier()
    model.first = block(features=WIDTH, expansion=2)
    model.second = block(features=WIDTH, expansion=2)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--steps", type=int, default=30, help="before, and again after")
    parser.add_argument("--target", choices=["cuda", "emulate"], default="cuda")
    options = parser.parse_args()
    on_gpu = options.target == "cuda" and torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"

    torch.manual_seed(0)
    plain = Classifier().to(device)
    optimizer = new_optimizer(plain)
    losses = train(plain, optimizer, range(options.steps), device)
    print(f"plain, before the checkpoint: loss {losses[0]:.4f} to {losses[-1]:.4f}")

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        torch.save({"model": plain.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
        saved: dict[str, Any] = torch.load(checkpoint)

    model = with_generated_blocks(options.target).to(device)
    model.load_state_dict(saved["model"])
    continued = new_optimizer(model)
    continued.load_state_dict(saved["optimizer"])

    rest = range(options.steps, 2 * options.steps)
    found = train(model, continued, rest, device)
    expected = train(plain, optimizer, rest, device)
    print(f"generated, from the checkpoint on: loss {found[0]:.4f} to {found[-1]:.4f}")
    difference = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    print(f"greatest difference to the plain model's losses: {difference:.1e}")


if __name__ == "__main__":
    main()
