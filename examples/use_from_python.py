"""Trains a fused model from Python, and moves its weights to the plain module and back."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import fusegen

MODEL = Path(__file__).parent / "mlp_residual.fuse"


class Block(nn.Module):
    """The residual block by hand."""

    def __init__(self, features: int, expansion: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.expand = nn.Linear(features, expansion * features)
        self.contract = nn.Linear(expansion * features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.expand(self.norm(x))
        return x + self.contract(nn.functional.gelu(hidden))


def plain(features: int, classes: int) -> nn.Module:
    """The model by hand: the same attributes, so the same state dict."""
    module = nn.Sequential()
    module.add_module("first", Block(features))
    module.add_module("second", Block(features))
    module.add_module("head", nn.Linear(features, classes))
    return module


def main() -> None:
    torch.manual_seed(0)
    has_gpu = torch.cuda.is_available()
    device = "cuda" if has_gpu else "cpu"
    model_class = fusegen.load(MODEL, target="cuda" if has_gpu else "emulate")

    model = model_class(features=32, classes=4).to(device)
    x = torch.randn(16, 32, device=device)
    labels = torch.randint(0, 4, (16,), device=device)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")

    by_hand = plain(features=32, classes=4).to(device)
    by_hand.load_state_dict(model.state_dict())
    with torch.no_grad():
        difference = (model(x) - by_hand(x)).abs().max().item()
    print(f"greatest difference to the module by hand: {difference:.1e}")


if __name__ == "__main__":
    main()
