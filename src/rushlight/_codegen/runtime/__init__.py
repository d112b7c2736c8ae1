"""What compiled kernels need while they run: worker threads and memory."""
