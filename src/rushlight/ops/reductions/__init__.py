"""One value from many, running ones, and order."""
