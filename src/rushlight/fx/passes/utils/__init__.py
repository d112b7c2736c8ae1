"""Utilities of passes: finding subgraphs."""
