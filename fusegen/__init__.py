"""fusegen: from a tiny op-graph language to fused CUDA kernels that run as PyTorch modules."""

__version__ = "0.1.0"
