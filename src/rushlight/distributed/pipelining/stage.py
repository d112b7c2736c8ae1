"""`PipelineStage`: the part of a model that one process runs."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.autograd import backward
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups, objects
from rushlight.nn import Module

__all__ = ["PipelineStage"]

FORWARD, BACKWARD = 0, 1
FIRST = 16  # the tag of the first stage's messages


def has_gradient(dtype: Any) -> bool:
    """Whether gradients of tensors of a dtype are sent back."""
    return dtype.is_floating_point or dtype.is_complex


class PipelineStage:
    """A part of a model, and its messages: activations to the next stage, gradients back.

    Stage `k` belongs to process `k % size` of the group. What a stage gives to the next one, and of which shapes, is told once
    with the first message.
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any = "cpu", input_args: Any = None,
        output_args: Any = None, group: Any = None, dw_builder: Any = None,
    ) -> None:  # fmt: skip
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device, group
        self.group_rank, self.group_size = groups.get_rank(group), groups.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        self.incoming: list | None = None  # (shape, dtype) of each tensor of a message
        self.outgoing: list | None = None
        self.clear()

    @property
    def is_first(self) -> bool:
        """Whether it takes the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the result."""
        return self.stage_index == self.num_stages - 1

    def clear(self) -> None:
        """Forget the microbatches of a step."""
        self.kept: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self.outputs: dict[int, Any] = {}
        self.local: dict[tuple[int, int], list] = {}  # messages between stages of this process
        self.works: list = []

    def _peer(self, stage: int) -> int:
        return stage % self.group_size

    # -- messages

    def _send(self, tensors: list[Tensor], stage: int, way: int) -> None:
        tag = FIRST + 2 * min(stage, self.stage_index) + way
        for t in tensors:
            self.works.append(
                collectives.isend(
                    t.contiguous(), group=self.group, tag=tag, group_dst=self._peer(stage)
                )
            )

    def _receive(self, kinds: list, stage: int, way: int) -> list[Tensor]:
        tag = FIRST + 2 * min(stage, self.stage_index) + way
        found = [rushlight.empty(shape, dtype=dtype) for shape, dtype in kinds]
        works = [
            collectives.irecv(t, group=self.group, tag=tag, group_src=self._peer(stage))
            for t in found
        ]
        for work in works:
            work.wait()
        return found

    def _received(self, others: dict[int, PipelineStage], k: int) -> list[Tensor]:
        """The inputs that the stage before sent."""
        before = self.stage_index - 1
        if before in others:
            return [t.detach() for t in others[before].local.pop((FORWARD, k))]
        if self.incoming is None:
            told: list = [None]
            objects.recv_object_list(told, group=self.group, group_src=self._peer(before))
            self.incoming = told[0]
        return self._receive(self.incoming, before, FORWARD)

    # -- microbatches

    def forward_one(self, k: int, args: tuple, kwargs: dict, others: dict, train: bool) -> Any:
        """The result of microbatch `k`, sent to the next stage."""
        if self.is_first:
            inputs = list(args)
        else:
            inputs = self._received(others, k)
            for t in inputs:
                if train and has_gradient(t.dtype):
                    t.requires_grad_()
        result = self.submod(*inputs, **kwargs)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if train:
            self.kept[k] = ([t for t in inputs if isinstance(t, Tensor)], outputs)
        self.outputs[k] = result
        if self.is_last:
            return result
        following = self.stage_index + 1
        if not all(isinstance(t, Tensor) for t in outputs):
            raise TypeError(
                f"stage {self.stage_index} gives something else than tensors to the next one"
            )
        kinds = [(tuple(t.shape), t.dtype) for t in outputs]
        if following in others:
            self.local[FORWARD, k] = outputs
        else:
            if self.outgoing is None:
                objects.send_object_list([kinds], group=self.group, group_dst=self._peer(following))
            elif kinds != self.outgoing:
                raise RuntimeError(
                    f"stage {self.stage_index} gives {kinds} to the next one, and gave {self.outgoing} before"
                )
            self._send([t.detach() for t in outputs], following, FORWARD)
        self.outgoing = kinds
        return result

    def backward_one(self, k: int, loss: Tensor | None, others: dict) -> None:
        """The gradients of microbatch `k`; those of the inputs are sent to the stage before."""
        inputs, outputs = self.kept.pop(k)
        if loss is not None:
            loss.backward()
        else:
            kinds = [kind for kind in self.outgoing or () if has_gradient(kind[1])]
            following = self.stage_index + 1
            if following in others:
                grads = others[following].local.pop((BACKWARD, k))
            else:
                grads = self._receive(kinds, following, BACKWARD)
            pairs = zip([t for t in outputs if has_gradient(t.dtype)], grads)
            pairs = [(t, grad) for t, grad in pairs if t.requires_grad]
            backward([t for t, _ in pairs], [grad for _, grad in pairs])
        if self.is_first:
            return
        before = self.stage_index - 1
        back = [
            rushlight.zeros_like(t) if t.grad is None else t.grad for t in inputs if t.requires_grad
        ]
        if before in others:
            self.local[BACKWARD, k] = back
        else:
            self._send(back, before, BACKWARD)

    def finish(self) -> None:
        """Wait until all messages are sent."""
        for work in self.works:
            work.wait()
        self.works = []

    def scale_grads(self, factor: int) -> None:
        """Divide the gradients of the parameters."""
        for p in self.submod.parameters():
            if p.grad is not None:
                p.grad.div_(factor)
