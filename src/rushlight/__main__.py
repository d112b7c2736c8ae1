"""`python -m rushlight script.py args...`, and the commands of `rushlight`: see `cli`."""

from __future__ import annotations

from rushlight.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
