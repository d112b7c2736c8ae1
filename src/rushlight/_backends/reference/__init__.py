"""The reference kernels, by family: every kernel on NumPy arrays, correct for every dtype."""
