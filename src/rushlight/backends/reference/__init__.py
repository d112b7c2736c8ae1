"""The kernels of the reference back end, by family, on NumPy arrays: `backends/numpy.py` finds them."""
