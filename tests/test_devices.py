"""Probes of devices and libraries answer honestly where there is only a CPU."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_probes_say_no():
    for device in (torch.cuda, torch.xpu, torch.mps, torch.accelerator):
        assert device.is_available() is False
        assert device.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert torch.backends.mps.is_available() is False
    assert torch.backends.cudnn.is_available() is False
    assert torch.cuda.memory_allocated() == 0
    assert torch.cuda.is_bf16_supported() is False
    assert torch.version.cuda is None


def test_what_has_no_effect():
    before = torch.get_rng_state()
    torch.cuda.manual_seed(3)
    torch.cuda.manual_seed_all(3)
    torch.mps.manual_seed(3)
    torch.cuda.empty_cache()
    assert bool((before == torch.get_rng_state()).all())


@pytest.mark.parametrize("name", ["synchronize", "current_device", "Event", "Stream"])
def test_what_needs_a_device_says_so(name):
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled") as caught:
        getattr(torch.cuda, name)()
    assert "is_available" in str(caught.value)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none"):
        torch.accelerator.synchronize()
    with pytest.raises(RuntimeError, match="without MPS backend"):
        torch.mps.synchronize()


def test_types_are_classes():
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
    words = r"type torch.cuda.FloatTensor not available. Torch not compiled with CUDA enabled\..*is_available"
    with pytest.raises(TypeError, match=words):
        torch.cuda.FloatTensor(3)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        torch.cuda.no_such_name  # noqa: B018


def test_switches_are_kept():
    torch.backends.cudnn.benchmark = True
    try:
        with torch.backends.cudnn.flags(benchmark=False, deterministic=True):
            assert not torch.backends.cudnn.benchmark
            assert torch.backends.cudnn.deterministic
        assert torch.backends.cudnn.benchmark
    finally:
        torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    import rushlight.backends.cudnn as cudnn

    assert cudnn is torch.backends.cudnn


def test_meta_tensors_have_no_address():
    assert torch.empty(2, device="meta").data_ptr() == 0


@pytest.mark.parametrize("name, shown", [("cuda", "cuda"), ("xpu", "xpu"), ("mtia", "MTIA")])
@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "meta"])
def test_a_conversion_named_after_a_device_refuses_another(name, shown, device):
    with pytest.raises(RuntimeError, match=f"Invalid device, must be {shown} device"):
        getattr(torch.ones(2), name)(device)
