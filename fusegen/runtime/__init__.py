"""Builds, caches and loads the generated sources, and wraps them as PyTorch modules."""
