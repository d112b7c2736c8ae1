"""Products, norms, factorizations and systems of matrices; Fourier transforms."""
