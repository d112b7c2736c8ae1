"""What layers compute: convolutions, norms, attention, losses."""
