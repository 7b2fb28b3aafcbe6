"""Which operations share a kernel, and how each kernel works."""
