"""Property tests of generated kernels, for users' own test suites and for `fusegen verify`."""
