"""What programs written for PyTorch ask for beyond its public API: the import hook, private names, absent devices."""
