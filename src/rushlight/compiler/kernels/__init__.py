"""The kernels, by family, written in the language of `rushlight.compiler.language`."""
