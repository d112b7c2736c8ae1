"""The public names of `autograd`, each from its file. Written by scripts/stubs.py; do not edit."""

from rushlight.autograd.function import Function as Function
from rushlight.autograd.function import NestedIOFunction as NestedIOFunction
from rushlight.autograd.variable import Variable as Variable
from rushlight.autograd.engine import backward as backward
from rushlight.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from rushlight.autograd.grad_mode import enable_grad as enable_grad
from rushlight.autograd.engine import grad as grad
from rushlight.autograd.gradcheck import gradcheck as gradcheck
from rushlight.autograd.gradcheck import gradgradcheck as gradgradcheck
from rushlight.autograd.grad_mode import inference_mode as inference_mode
from rushlight.autograd.profiler import kineto_available as kineto_available
from rushlight.autograd.grad_mode import no_grad as no_grad
from rushlight.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from rushlight.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from rushlight.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from rushlight.autograd import anomaly_mode as anomaly_mode
from rushlight.autograd import engine as engine
from rushlight.autograd import forward_ad as forward_ad
from rushlight.autograd import function as function
from rushlight.autograd import functional as functional
from rushlight.autograd import grad_mode as grad_mode
from rushlight.autograd import graph as graph
from rushlight.autograd import profiler as profiler
from rushlight.autograd import variable as variable
