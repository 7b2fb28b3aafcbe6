"""Measurements on a GPU: the generated modules beside PyTorch's own ways to run the same chain."""
