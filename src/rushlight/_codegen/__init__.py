"""The kernel compiler: a small language with Python's syntax, compiled by LLVM for the processor at hand."""
