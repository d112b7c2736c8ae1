"""`PipelineStage`: the part of a model that one process runs."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.autograd import backward
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups, objects
from rushlight.distributed.pipelining.halves import first_half
from rushlight.nn import Module

__all__ = ["PipelineStage"]

FORWARD, BACKWARD = 0, 1
FIRST = 16  # the tag of the first stage's messages


def has_gradient(dtype: Any) -> bool:
    """Whether gradients of tensors of a dtype are sent back."""
    return dtype.is_floating_point or dtype.is_complex


class PipelineStage:
    """A part of a model, and its messages: activations to the next stage, gradients back.

    Stage `k` belongs to process `k % size` of the group, or where its schedule has it. `dw_builder()` is called after each
    backward and gives a function for gradients that the module's backward leaves out; it runs when a schedule has time.
    What a stage gives to the next one, and of which shapes, is told once with the first message.
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any = "cpu", input_args: Any = None,
        output_args: Any = None, group: Any = None, dw_builder: Any = None,
    ) -> None:  # fmt: skip
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group, self.dw_builder = device, group, dw_builder
        # (stage, size of the group) -> process
        self.place: Callable[[int, int], int] = operator.mod
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
        self.later: dict[int, Callable] = {}  # what is left of the backwards of microbatches
        self.works: list = []

    def _peer(self, stage: int) -> int:
        return self.place(stage, self.group_size)

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

    def backward_one(self, k: int, loss: Tensor | None, others: dict, halves: bool = False) -> None:
        """The gradients of microbatch `k`; those of the inputs are sent to the stage before.

        `halves`: those of the parameters come later, with `finish_backward`.
        """
        inputs, outputs = self.kept.pop(k)
        wanted = [t for t in inputs if t.requires_grad]
        roots, grads = self._roots(k, outputs, loss, others)
        if not halves or self.dw_builder is not None:
            backward(roots, grads)
            if self.dw_builder is not None:
                self.later[k] = self.dw_builder()
            back = [t.grad for t in wanted]
        elif self.is_first or not wanted:
            self.later[k] = functools.partial(backward, roots, grads)
            back = [None] * len(wanted)
        else:
            back, self.later[k] = first_half(roots, grads, wanted)
        if not halves:
            self.finish_backward(k)
        if self.is_first:
            return
        sent = [rushlight.zeros_like(t) if g is None else g for t, g in zip(wanted, back)]
        before = self.stage_index - 1
        if before in others:
            self.local[BACKWARD, k] = sent
        else:
            self._send(sent, before, BACKWARD)

    def finish_backward(self, k: int) -> None:
        """The gradients of parameters that the backward of microbatch `k` has left for later."""
        if k in self.later:
            self.later.pop(k)()

    def _roots(
        self, k: int, outputs: list[Tensor], loss: Tensor | None, others: dict
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """Where the backward of microbatch `k` starts, and the gradients there."""
        if loss is not None:
            return [loss], [None]
        following = self.stage_index + 1
        if following in others:
            grads = others[following].local.pop((BACKWARD, k))
        else:
            kinds = [kind for kind in self.outgoing or () if has_gradient(kind[1])]
            grads = self._receive(kinds, following, BACKWARD)
        sent = [t for t in outputs if has_gradient(t.dtype)]
        pairs = [(t, g) for t, g in zip(sent, grads) if t.requires_grad]
        return [t for t, _ in pairs], [g for _, g in pairs]

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


_PipelineStageBase = PipelineStage  # programs ask for it under this name of PyTorch's
