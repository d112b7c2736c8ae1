"""`torch.utils.model_zoo`: the older name of `torch.hub.load_state_dict_from_url`."""

from __future__ import annotations

from typing import Any

__all__ = ["load_url"]


def load_url(*args: Any, **kwargs: Any) -> Any:
    """`torch.hub.load_state_dict_from_url`, with its arguments."""
    import rushlight

    return rushlight.hub.load_state_dict_from_url(*args, **kwargs)
