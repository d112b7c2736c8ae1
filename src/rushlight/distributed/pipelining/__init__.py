"""`torch.distributed.pipelining`: a model in stages, each on a process, and batches that flow through them in parts."""

from rushlight.distributed.pipelining.microbatch import TensorChunkSpec
from rushlight.distributed.pipelining.pipe import (
    Pipe,
    SplitPoint,
    build_stage,
    pipe_split,
    pipeline,
)
from rushlight.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from rushlight.distributed.pipelining.stage import PipelineStage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "TensorChunkSpec", "build_stage",
    "pipe_split", "pipeline",
]  # fmt: skip
