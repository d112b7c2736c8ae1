"""Views, and copies that move elements: nothing is computed."""
