"""`torch.distributed.launch`: `torch.distributed.run`, whose programs get the argument --local-rank without --use-env."""

from __future__ import annotations

from rushlight.distributed import run

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run a program in several processes. Exits with status 1 if it fails."""
    options = run.parse_args(args)
    options.says_local_rank = not options.use_env
    if status := run.run(options):
        raise SystemExit(status)


if __name__ == "__main__":
    main()
