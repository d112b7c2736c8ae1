"""The switches of `torch._dynamo.config` that have an effect here."""

from __future__ import annotations


class Switches:
    """How compiled functions are made and called."""

    def __init__(self) -> None:
        self.disable = False  # no call becomes a program; programs that there are run
        self.error_on_recompile = False  # a second program raises RecompileError
        self.suppress_errors = False  # where the back end raises, the call runs as it is written
        self.recompile_limit = 8  # programs of one function for one size of its arguments
        self.accumulated_recompile_limit = 256  # programs of one function
        self.fail_on_recompile_limit_hit = False  # more of them than `recompile_limit` raise


switches = Switches()
