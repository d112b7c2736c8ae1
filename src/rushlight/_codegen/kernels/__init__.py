"""The kernels, by family, written in the language of `rushlight._codegen.language`."""
