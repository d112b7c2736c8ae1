"""`torch.fx.experimental`: see `proxy_tensor`, and `graph_gradual_typechecker` for types of graphs."""
