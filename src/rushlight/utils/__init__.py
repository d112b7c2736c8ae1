"""What programs need around tensors: data loading, hooks."""
