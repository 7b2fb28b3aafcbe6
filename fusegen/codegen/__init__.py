"""From plans to text: CUDA kernels, their C++ binding and the Python module around them."""
