"""Images: models, transforms, data sets, files, boxes."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import importlib.util
import math
import pathlib
import pickle

import numpy as np
import pytest

import rushlight as torch
from processes import finished
from rushlight.vision import datasets, io, models, ops, transforms, utils
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms import v2

needs_pillow = pytest.mark.skipif(
    importlib.util.find_spec("PIL") is None, reason="Pillow is not installed (extra: images)"
)

# ---------------------------------------------------------------------------------- models

COUNTS = {
    "alexnet": 61100840,
    "densenet121": 7978856,
    "densenet169": 14149480,
    "efficientnet_b0": 5288548,
    "efficientnet_b1": 7794184,
    "googlenet": 13004888,
    "inception_v3": 27161264,
    "mobilenet_v2": 3504872,
    "mobilenet_v3_large": 5483032,
    "mobilenet_v3_small": 2542856,
    "resnet18": 11689512,
    "resnet34": 21797672,
    "resnet50": 25557032,
    "resnet101": 44549160,
    "resnext50_32x4d": 25028904,
    "shufflenet_v2_x0_5": 1366792,
    "shufflenet_v2_x1_0": 2278604,
    "shufflenet_v2_x1_5": 3503624,
    "shufflenet_v2_x2_0": 7393996,
    "squeezenet1_0": 1248424,
    "squeezenet1_1": 1235496,
    "vgg16": 138357544,
    "vit_b_16": 86567656,
    "wide_resnet50_2": 68883240,
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts(name):
    with torch.device("meta"):
        model = models.get_model(name)
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name]


@pytest.mark.parametrize("kind", [models.resnet.BasicBlock, models.resnet.Bottleneck])
def test_a_block_of_resnet_runs_its_shortcut_after_its_convolutions(kind):
    block = kind(4, 1, downsample=torch.nn.Conv2d(4, kind.expansion, 1))
    ran = []
    for name, child in block.named_children():
        child.register_forward_hook(lambda *_, name=name: ran.append(name))
    block(torch.ones(1, 4, 2, 2))
    assert ran[-2:] == ["downsample", "relu"]


def test_keys_of_resnet18():
    batch = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    want = ["conv1.weight", *(f"bn1.{k}" for k in batch)]
    for stage in range(1, 5):
        for block in range(2):
            at = f"layer{stage}.{block}"
            for i in (1, 2):
                want += [f"{at}.conv{i}.weight", *(f"{at}.bn{i}.{k}" for k in batch)]
            if stage > 1 and block == 0:
                want += [f"{at}.downsample.0.weight", *(f"{at}.downsample.1.{k}" for k in batch)]
    state = models.resnet18().state_dict()
    assert list(state) == [*want, "fc.weight", "fc.bias"]
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mobilenet_v2", {"features.1.conv.0.0.weight": (32, 1, 3, 3), "features.2.conv.3.weight": (24,), "features.18.0.weight": (1280, 320, 1, 1), "classifier.1.bias": (1000,)}),
        ("mobilenet_v3_small", {"features.1.block.1.fc1.weight": (8, 16, 1, 1), "features.0.1.running_var": (16,), "classifier.3.weight": (1000, 1024)}),
        ("densenet121", {"features.denseblock1.denselayer2.conv2.weight": (32, 128, 3, 3), "features.transition3.norm.bias": (1024,), "features.norm5.weight": (1024,)}),
        ("shufflenet_v2_x1_0", {"conv1.0.weight": (24, 3, 3, 3), "stage2.0.branch1.0.weight": (24, 1, 3, 3), "stage2.0.branch2.0.weight": (58, 24, 1, 1), "stage4.3.branch2.6.running_var": (232,), "conv5.0.weight": (1024, 464, 1, 1), "fc.weight": (1000, 1024)}),
        ("squeezenet1_0", {"features.3.squeeze.weight": (16, 96, 1, 1), "features.12.expand3x3.bias": (256,), "classifier.1.weight": (1000, 512, 1, 1)}),
        ("efficientnet_b0", {"features.2.0.block.2.fc1.weight": (4, 96, 1, 1), "features.8.0.weight": (1280, 320, 1, 1), "classifier.1.weight": (1000, 1280)}),
        ("vit_b_16", {"class_token": (1, 1, 768), "encoder.pos_embedding": (1, 197, 768), "encoder.layers.encoder_layer_11.self_attention.in_proj_weight": (2304, 768), "encoder.layers.encoder_layer_0.mlp.3.weight": (768, 3072), "heads.head.bias": (1000,)}),
        ("vgg11", {"features.18.weight": (512, 512, 3, 3), "classifier.6.weight": (1000, 4096)}),
        ("googlenet", {"inception3a.branch2.1.conv.weight": (128, 96, 3, 3), "aux1.fc1.weight": (1024, 2048)}),
    ],
)  # fmt: skip
def test_shapes_of_some_keys(name, shapes):
    with torch.device("meta"):
        state = models.get_model(name).state_dict()
    assert {key: tuple(state[key].shape) for key in shapes} == shapes


@pytest.mark.parametrize(
    ("name", "size"),
    [("resnet18", 32), ("mobilenet_v2", 32), ("mobilenet_v3_small", 32), ("densenet121", 32),
     ("squeezenet1_1", 32), ("efficientnet_b0", 32), ("googlenet", 32), ("shufflenet_v2_x0_5", 32)],
)  # fmt: skip
def test_forward_in_eval_and_train(name, size):
    torch.manual_seed(0)
    model = models.get_model(name, num_classes=7)
    x = torch.randn(2, 3, size, size)
    with torch.no_grad():
        assert model.eval()(x).shape == (2, 7)
    out = model.train()(x)
    out = out.logits if name == "googlenet" else out
    assert out.shape == (2, 7)
    out.sum().backward()
    assert next(model.parameters()).grad.shape == next(model.parameters()).shape


def test_small_vision_transformer():
    net = models.VisionTransformer(16, 8, 2, 2, 8, 16, num_classes=3)
    torch.nn.init.normal_(net.heads.head.weight)
    assert net(torch.randn(2, 3, 16, 16)).shape == (2, 3)
    with pytest.raises(AssertionError, match="Wrong image height! Expected"):
        net(torch.randn(2, 3, 8, 8))


def test_vision_transformer_behind_convolutions():
    from rushlight.vision.models.vision_transformer import ConvStemConfig, VisionTransformer

    stem = [ConvStemConfig(out_channels=4, kernel_size=3, stride=2)] * 3
    net = VisionTransformer(32, 8, 1, 2, 16, 16, num_classes=5, conv_stem_configs=stem)
    assert net.conv_proj.conv_bn_relu_2[0].weight.shape == (4, 4, 3, 3)
    assert net.conv_proj.conv_last.weight.shape == (16, 4, 1, 1)
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 5)


def test_weights_are_refused_with_a_reason():
    with pytest.raises(ValueError, match="does not fetch trained weights"):
        models.resnet18(weights="DEFAULT")
    with pytest.raises(ValueError, match="ResNet18_Weights.IMAGENET1K_V1"):
        models.resnet18(weights=models.ResNet18_Weights.IMAGENET1K_V1)
    with pytest.raises(ValueError, match="load_state_dict"):
        models.vgg16(pretrained=True)
    assert models.squeezenet1_1(weights=None, num_classes=2).num_classes == 2
    with pytest.raises(AttributeError, match="no attribute 'Nothing_Weights'"):
        models.Nothing_Weights  # noqa: B018


def test_stochastic_depth_keeps_the_mean():
    torch.manual_seed(0)
    layer = ops.StochasticDepth(0.25, "row")
    out = layer(torch.ones(4000, 2))
    assert set(np.unique(out.numpy()).round(4)) == {0.0, np.float32(1.3333)}
    assert abs(float(out.mean()) - 1) < 0.05
    assert layer.eval()(torch.ones(2)).tolist() == [1, 1]


# ---------------------------------------------------------------------------------- transforms


def ramp(*shape):
    return torch.arange(math.prod(shape)).reshape(shape)


def test_to_tensor_of_arrays():
    array = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    out = transforms.ToTensor()(array)
    assert out.shape == (3, 2, 2) and out.dtype == torch.float32
    assert torch.equal(out, torch.from_numpy(array).permute(2, 0, 1) / 255)
    assert F.to_tensor(np.ones((2, 3), np.float64)).dtype == torch.float64
    with pytest.raises(TypeError, match="pic should be PIL Image or ndarray"):
        F.to_tensor([1])


@needs_pillow
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "1", "LA", "CMYK"])
def test_to_tensor_of_pictures(mode):
    from PIL import Image

    array = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    picture = Image.fromarray(array).convert(mode)
    values = np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1)
    expected = values if mode == "1" else values.astype(np.float32) / np.float32(255)
    out = F.to_tensor(picture)
    assert out.is_contiguous() and out.dtype == torch.float32
    np.testing.assert_array_equal(out.numpy(), expected)
    whole = F.pil_to_tensor(picture)
    assert whole.is_contiguous() and whole.dtype == torch.uint8
    np.testing.assert_array_equal(whole.numpy(), values)
    whole.add_(1)  # memory of its own
    np.testing.assert_array_equal(F.to_tensor(picture).numpy(), expected)


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5), (3, 0, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_normalize_is_its_formula(shape, dtype):
    x, mean, std = torch.rand(shape).to(dtype), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    middle, deviation = (torch.tensor(v, dtype=dtype)[:, None, None] for v in (mean, std))
    expected = (x - middle) / deviation
    for image in (x, x.transpose(-1, -2).contiguous().transpose(-1, -2)):
        got = F.normalize(image, mean, std)
        assert torch.equal(got, expected) and got.stride() == image.stride()
    assert torch.equal(
        F.normalize(x, torch.tensor(mean, dtype=torch.float64), tuple(std)), expected
    )
    leaf = x.clone().requires_grad_()
    F.normalize(leaf, mean, std).sum().backward()
    assert leaf.grad is not None and leaf.grad.all()
    with pytest.raises(ValueError, match="division by zero"):
        F.normalize(x, mean, [1.0, 1e-60 if dtype == torch.float32 else 0.0, 1.0])
    with pytest.raises(RuntimeError):
        F.normalize(x, [0.5, 0.5], [0.5, 0.5])
    endless = torch.full(shape, math.inf, dtype=dtype)
    assert F.normalize(endless, [math.inf] * 3, std).isnan().all()


def test_normalize():
    x = torch.tensor([[[1.0]], [[2.0]]])
    out = transforms.Normalize([1, 0], [2, 4])(x)
    assert out.flatten().tolist() == [0.0, 0.5] and x.flatten().tolist() == [1, 2]
    with pytest.raises(TypeError, match="should be a float tensor"):
        F.normalize(ramp(1, 2, 2), [0], [1])
    with pytest.raises(ValueError, match="division by zero"):
        F.normalize(x, [0, 0], [1, 0])


def test_flips_crops_and_pads():
    x = ramp(1, 3, 3)
    assert F.hflip(x)[0, 0].tolist() == [2, 1, 0]
    assert F.vflip(x)[0, :, 0].tolist() == [6, 3, 0]
    assert F.crop(x, -1, 1, 2, 3).tolist() == [[[0, 0, 0], [1, 2, 0]]]
    assert F.center_crop(x, 1).item() == 4
    assert F.center_crop(x, 5).shape == (1, 5, 5)
    assert F.pad(x, 1)[0, 1].tolist() == [0, 0, 1, 2, 0]
    assert F.pad(x, [1, 0], padding_mode="reflect")[0, 0].tolist() == [1, 0, 1, 2, 1]
    assert F.pad(x, [2, 0, 0, 0], padding_mode="symmetric")[0, 0].tolist() == [1, 0, 0, 1, 2]
    assert F.pad(x, [0, 0, 2, 0], padding_mode="edge")[0, 0].tolist() == [0, 1, 2, 2, 2]
    assert [int(c.sum()) for c in F.five_crop(x, 1)] == [0, 2, 6, 8, 4]
    assert len(F.ten_crop(x, 2)) == 10


def test_resize_and_turn():
    x = ramp(1, 4, 4).float()
    assert F.resize(x, [2, 2]).shape == (1, 2, 2)
    assert F.resize(ramp(1, 4, 8).float(), 2).shape == (1, 2, 4)
    assert F.resize(ramp(1, 4, 8).float(), 3, max_size=4).shape == (1, 2, 4)
    nearest = F.resize(x, [2, 2], F.InterpolationMode.NEAREST)
    assert nearest.tolist() == [[[0, 2], [8, 10]]]
    assert torch.equal(F.rotate(x, 90), torch.rot90(x, 1, (1, 2)))
    moved = F.affine(x, 0, [1, 0], 1.0, [0.0, 0.0], fill=[9.0])
    assert moved[0, 0].tolist() == [9, 0, 1, 2]


def test_colours_by_hand():
    x = torch.tensor([0.2, 0.4, 0.6]).reshape(3, 1, 1)
    assert F.adjust_brightness(x, 2.0).flatten().tolist() == pytest.approx([0.4, 0.8, 1.0])
    gray = 0.2989 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6
    assert F.rgb_to_grayscale(x).item() == pytest.approx(gray)
    assert F.adjust_saturation(x, 0.0).flatten().tolist() == pytest.approx([gray] * 3)
    assert F.adjust_contrast(x, 0.0).flatten().tolist() == pytest.approx([gray] * 3)
    turned = F.adjust_hue(torch.tensor([1.0, 0, 0]).reshape(3, 1, 1), 1 / 3)
    assert turned.flatten().tolist() == pytest.approx([0, 1, 0], abs=1e-5)
    assert torch.allclose(F.adjust_hue(x, 0.0), x)
    bytes_ = torch.tensor([[[200]], [[10]], [[0]]], dtype=torch.uint8)
    assert F.adjust_brightness(bytes_, 2).flatten().tolist() == [255, 20, 0]
    assert F.invert(bytes_).flatten().tolist() == [55, 245, 255]
    assert F.posterize(bytes_, 1).flatten().tolist() == [128, 0, 0]
    assert F.convert_image_dtype(torch.tensor([0.0, 1.0]), torch.uint8).tolist() == [0, 255]


def test_random_numbers_are_drawn_in_torchvisions_order():
    x = ramp(1, 6, 6)
    torch.manual_seed(3)
    out = transforms.RandomCrop(4, padding=1)(x)
    torch.manual_seed(3)
    i, j = (int(torch.randint(0, 5, (1,))) for _ in range(2))
    assert torch.equal(out, F.crop(F.pad(x, 1), i, j, 4, 4))

    torch.manual_seed(5)
    got = transforms.RandomHorizontalFlip()(x)
    torch.manual_seed(5)
    assert torch.equal(got, F.hflip(x) if torch.rand(1) < 0.5 else x)

    torch.manual_seed(7)
    order, b, c, s, h = transforms.ColorJitter.get_params((0.5, 1.5), None, (0, 1), (-0.1, 0.1))
    torch.manual_seed(7)
    assert order.tolist() == torch.randperm(4).tolist() and c is None
    want = [torch.empty(1).uniform_(*r).item() for r in ((0.5, 1.5), (0.0, 1.0), (-0.1, 0.1))]
    assert [b, s, h] == want

    torch.manual_seed(9)
    top, left, height, width = transforms.RandomResizedCrop.get_params(x, (1.0, 1.0), (1.0, 1.0))
    assert (top, left, height, width) == (0, 0, 6, 6)


def test_random_erasing():
    torch.manual_seed(0)
    x = torch.ones(3, 8, 8)
    out = transforms.RandomErasing(p=1.0, value=0)(x)
    assert 0 < int((out == 0).sum()) < 3 * 64 * 0.4 and bool((x == 1).all())
    assert transforms.RandomErasing(p=0.0)(x) is x


def test_chains():
    double = transforms.Lambda(lambda x: x * 2)
    assert transforms.Compose([double, double])(3) == 12
    assert transforms.RandomApply([double], p=0.0)(3) == 3
    assert transforms.RandomApply([double], p=1.0)(3) == 6
    assert transforms.RandomChoice([double])(3) == 6
    assert transforms.RandomOrder([double, double])(3) == 12
    shown = repr(transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]))
    assert shown == "Compose(\n    ToTensor()\n    Normalize(mean=(0.5,), std=(0.5,))\n)"
    assert repr(transforms.RandomResizedCrop(8)) == (
        "RandomResizedCrop(size=(8, 8), scale=(0.08, 1.0), ratio=(0.75, 1.3333), interpolation=bilinear, "
        "antialias=True)"
    )
    assert repr(transforms.RandomRotation(5)) == (
        "RandomRotation(degrees=[-5.0, 5.0], interpolation=nearest, expand=False, fill=0)"
    )


def test_blur_keeps_a_constant():
    x = torch.full((1, 7, 7), 3.0)
    assert torch.allclose(transforms.GaussianBlur(3, 1.0)(x), x)
    with pytest.raises(ValueError, match="odd"):
        transforms.GaussianBlur(2)


def test_v2_changes_the_image_and_leaves_the_rest():
    x = ramp(1, 2, 2).to(torch.uint8)
    chain = v2.Compose(
        [
            v2.RandomHorizontalFlip(1.0),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0], [1]),
        ]
    )
    image, label = chain(x, 5)
    assert label == 5 and torch.allclose(image, F.hflip(x) / 255)
    sample = chain({"image": x, "box": torch.ones(4)})
    assert sample["box"].tolist() == [1] * 4 and sample["image"].dtype == torch.float32
    assert v2.RandomCrop(1)(x).shape == (1, 1, 1)


def test_v2_functions_are_a_module_that_is_imported_by_its_name():
    named = importlib.import_module("rushlight.vision.transforms.v2.functional")
    assert named is v2.functional and set(F.__all__) < set(named.__all__)
    grey = torch.tensor([[[0, 51]]], dtype=torch.uint8)
    assert named.grayscale_to_rgb(grey).tolist() == [[[0, 51]]] * 3
    assert torch.allclose(named.to_dtype(grey, scale=True), torch.tensor([0.0, 0.2]))
    assert named.to_dtype(grey).tolist() == [[[0.0, 51.0]]]
    assert named.get_size(grey) == [1, 2] and named.get_num_channels(grey) == 1
    assert named.to_image(np.zeros((4, 5), np.uint8)).shape == (1, 4, 5)


def test_v2_resizes_bytes_as_bytes():
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 9, 8), dtype=np.uint8))
    for mode in (F.InterpolationMode.BILINEAR, F.InterpolationMode.BICUBIC):
        wide = v2.functional.resize(x, (9, 5), mode)
        both = v2.functional.resize(x, (6, 5), mode)
        assert both.dtype == torch.uint8
        assert both.equal(v2.functional.resize(wide, (6, 5), mode))  # rounded in between
        assert both.equal(v2.Resize((6, 5), mode)(x))
        assert not both.equal(F.resize(x, (6, 5), mode))  # the older one rounds once
    assert v2.functional.resize(x, [9, 8]) is x


def test_policies():
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 9, 8), dtype=np.uint8))
    for policy in (
        transforms.RandAugment(),
        transforms.TrivialAugmentWide(),
        v2.RandAugment(fill=1),
    ):
        for seed in range(25):
            torch.manual_seed(seed)
            out = policy(x)
            assert out.shape == x.shape and out.dtype == torch.uint8
    torch.manual_seed(2)
    table = transforms.TrivialAugmentWide()._table(9, 8)
    (name, size) = transforms.TrivialAugmentWide().draw(x)[0]
    torch.manual_seed(2)
    want, sizes, signed = table[int(torch.randint(14, (1,)))]
    assert name == want and (sizes is None or abs(size) in sizes.tolist())


def test_mixed_batches():
    torch.manual_seed(0)
    images, labels = torch.stack([torch.zeros(1, 8, 8), torch.ones(1, 8, 8)]), torch.tensor([0, 1])
    for kind in (v2.MixUp, v2.CutMix):
        out, shares = kind(num_classes=3)(images, labels)
        assert shares.shape == (2, 3) and torch.allclose(shares.sum(1), torch.ones(2))
        assert torch.allclose(out.mean((1, 2, 3)), shares[:, 1], atol=1e-6)
    with pytest.raises(ValueError, match="num_classes must be passed"):
        v2.MixUp()(images, labels)


@needs_pillow
def test_pil_and_tensor_agree():
    array = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    picture = F.to_pil_image(array)
    tensor = F.pil_to_tensor(picture)
    assert torch.equal(tensor, torch.from_numpy(array).permute(2, 0, 1))
    same = [
        (F.hflip, ()), (F.vflip, ()), (F.crop, (2, 3, 5, 4)), (F.crop, (-2, -3, 20, 20)), (F.pad, ((1, 2, 3, 4), 7)),
        (F.pad, (2, 0, "reflect")), (F.pad, (2, 0, "symmetric")), (F.center_crop, (20,)), (F.invert, ()),
        (F.posterize, (3,)), (F.solarize, (100,)), (F.equalize, ()), (F.rotate, (90,)),
    ]  # fmt: skip
    for function, arguments in same:
        got = F.pil_to_tensor(function(picture, *arguments))
        assert torch.equal(got, function(tensor, *arguments)), function.__name__
    near = [
        (F.resize, ([7, 5],)), (F.adjust_brightness, (1.3,)), (F.adjust_saturation, (0.4,)), (F.to_grayscale, ()),
        (F.gaussian_blur, (3,)), (F.adjust_contrast, (0.5,)), (F.autocontrast, ()),
    ]  # fmt: skip
    for function, arguments in near:
        got = F.pil_to_tensor(function(picture, *arguments)).int()
        assert int((got - function(tensor, *arguments).int()).abs().max()) <= 2, function.__name__


# ---------------------------------------------------------------------------------- data sets


def idx(array):
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    """A root with three pictures to train and two to test, the latter packed."""
    raw = tmp_path / "Tiny" / "raw"
    raw.mkdir(parents=True)
    images = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
    packed = [gzip.compress(idx(images[:2])), gzip.compress(idx([1, 0]))]
    (raw / "train-images-idx3-ubyte").write_bytes(idx(images))
    (raw / "train-labels-idx1-ubyte").write_bytes(idx([2, 0, 1]))
    (raw / "t10k-images-idx3-ubyte.gz").write_bytes(packed[0])
    (raw / "t10k-labels-idx1-ubyte.gz").write_bytes(packed[1])
    sums = [hashlib.md5(data).hexdigest() for data in packed]

    class Tiny(datasets.MNIST):
        resources = (
            *datasets.MNIST.resources[:2],
            ("t10k-images-idx3-ubyte.gz", sums[0]),
            ("t10k-labels-idx1-ubyte.gz", sums[1]),
        )

    return Tiny, tmp_path, images


def test_mnist_files(mnist):
    kind, root, images = mnist
    train, test = kind(root), kind(root, train=False)
    assert len(train) == 3 and train.targets.tolist() == [2, 0, 1]
    assert np.array_equal(train.data.numpy(), images) and test.targets.tolist() == [1, 0]
    assert "Split: Train" in repr(train)
    (root / "Tiny" / "raw" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx([1, 1])))
    with pytest.raises(RuntimeError, match="corrupted"):
        kind(root, train=False)
    (root / "Tiny" / "raw" / "train-labels-idx1-ubyte").write_bytes(idx([1, 1])[:-1])
    with pytest.raises(RuntimeError, match="should hold 2 numbers"):
        kind(root)


@needs_pillow
def test_mnist_items(mnist):
    kind, root, images = mnist
    picture, label = kind(root)[1]
    assert picture.mode == "L" and label == 0
    image, label = kind(root, transform=transforms.ToTensor(), target_transform=str)[1]
    assert label == "0" and torch.equal(image * 255, torch.from_numpy(images[1:2]).float())


def test_missing_files_are_named(tmp_path):
    with pytest.raises(RuntimeError, match="download=True"):
        datasets.FashionMNIST(tmp_path)
    with pytest.raises(RuntimeError, match="data_batch_1"):
        datasets.CIFAR10(tmp_path)


def test_download_checks_the_sum(tmp_path):
    from rushlight.vision.datasets.utils import download_and_extract_archive

    source = tmp_path / "source.gz"
    source.write_bytes(gzip.compress(b"hello"))
    digest = hashlib.md5(source.read_bytes()).hexdigest()
    download_and_extract_archive(source.as_uri(), tmp_path / "a", filename="x.gz", md5=digest)
    assert (tmp_path / "a" / "x").read_bytes() == b"hello"
    with pytest.raises(RuntimeError, match="corrupted"):
        download_and_extract_archive(source.as_uri(), tmp_path / "b", md5="0" * 32)
    assert list((tmp_path / "b").iterdir()) == []
    with pytest.raises(RuntimeError, match="Without a network"):
        download_and_extract_archive((tmp_path / "no.gz").as_uri(), tmp_path / "b")


@pytest.fixture
def cifar(tmp_path):
    """CIFAR10 of two batches of two, with checksums of its own."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)
    files = {
        "one": {"data": rng.integers(0, 256, (2, 3072), dtype=np.uint8), "labels": [1, 0]},
        "two": {"data": rng.integers(0, 256, (2, 3072), dtype=np.uint8), "labels": [0, 1]},
        "names": {"label_names": ["cat", "dog"]},
    }
    sums = {}
    for name, content in files.items():
        data = pickle.dumps(content, protocol=2)
        (folder / name).write_bytes(data)
        sums[name] = hashlib.md5(data).hexdigest()

    class Fake(datasets.CIFAR10):
        train_list = (("one", sums["one"]), ("two", sums["two"]))
        test_list = (("two", sums["two"]),)
        meta = {"filename": "names", "key": "label_names", "md5": sums["names"]}  # noqa: RUF012

    return Fake, tmp_path, files


def test_cifar_files(cifar):
    kind, root, files = cifar
    data = kind(root)
    assert data.targets == [1, 0, 0, 1] and data.class_to_idx == {"cat": 0, "dog": 1}
    want = files["one"]["data"][0].reshape(3, 32, 32).transpose(1, 2, 0)
    assert np.array_equal(data.data[0], want) and len(kind(root, train=False)) == 2
    with (root / "cifar-10-batches-py" / "one").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RuntimeError, match="not found or corrupted"):
        kind(root)


def test_cifar_executes_nothing(cifar):
    kind, root, _ = cifar
    data = b"cos\nsystem\n(S'true'\ntR."
    (root / "cifar-10-batches-py" / "two").write_bytes(data)
    kind.train_list = kind.test_list = (("two", hashlib.md5(data).hexdigest()),)
    with pytest.raises(RuntimeError, match="os.system"):
        kind(root)


@needs_pillow
def test_folders_of_images(tmp_path):
    for name, value in (("dog", 10), ("cat", 200)):
        (tmp_path / name).mkdir()
        io.write_png(torch.full((3, 4, 5), value, dtype=torch.uint8), tmp_path / name / "a.png")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    data = datasets.ImageFolder(tmp_path, transform=transforms.PILToTensor())
    assert data.classes == ["cat", "dog"] and data.targets == [0, 1] and len(data.imgs) == 2
    image, target = data[1]
    assert image.shape == (3, 4, 5) and int(image[0, 0, 0]) == 10 and target == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the classes empty"):
        datasets.ImageFolder(tmp_path)
    assert len(datasets.ImageFolder(tmp_path, allow_empty=True)) == 2
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        datasets.ImageFolder(tmp_path / "empty")


@needs_pillow
def test_fake_data():
    data = datasets.FakeData(3, (3, 8, 8), transform=transforms.ToTensor())
    state = torch.get_rng_state()
    image, target = data[1]
    assert image.shape == (3, 8, 8) and 0 <= target < 10
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(data[1][0], image)
    with pytest.raises(IndexError):
        data[3]


# ---------------------------------------------------------------------------------- files, grids, boxes


@needs_pillow
def test_image_files(tmp_path):
    picture = (ramp(3, 5, 4) * 4).to(torch.uint8)
    assert io.image.ImageReadMode is io.ImageReadMode  # torchvision's file of that name
    io.write_png(picture, tmp_path / "a.png")
    assert torch.equal(io.read_image(tmp_path / "a.png"), picture)
    assert io.read_image(tmp_path / "a.png", io.ImageReadMode.GRAY).shape == (1, 5, 4)
    assert io.decode_image(io.read_file(tmp_path / "a.png"), "RGBA").shape == (4, 5, 4)
    io.write_jpeg(picture[:1], tmp_path / "a.jpg", quality=95)
    assert io.read_image(tmp_path / "a.jpg").shape == (1, 5, 4)
    with pytest.raises(RuntimeError, match="no picture"):
        io.decode_image(torch.zeros(9, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="uint8"):
        io.write_png(picture.float(), tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()


def test_make_grid():
    grid = utils.make_grid(
        [torch.full((1, 2, 2), float(i)) for i in range(3)], nrow=2, padding=1, pad_value=9
    )
    assert grid.shape == (3, 7, 7)
    assert grid[0, 1].tolist() == [9, 0, 0, 9, 1, 1, 9] and grid[2, 4].tolist() == [
        9,
        2,
        2,
        9,
        9,
        9,
        9,
    ]
    scaled = utils.make_grid(torch.tensor([[[[2.0, 4.0]]]]), normalize=True)
    assert scaled[0].tolist() == [[0.0, 1.0]]


@needs_pillow
def test_save_and_draw(tmp_path):
    utils.save_image(torch.rand(4, 3, 5, 5), tmp_path / "grid.png", nrow=2)
    assert io.read_image(tmp_path / "grid.png").shape == (3, 16, 16)
    black = torch.zeros(3, 8, 8, dtype=torch.uint8)
    out = utils.draw_bounding_boxes(black, torch.tensor([[1, 1, 5, 6]]), colors="red")
    assert (
        out[:, 1, 3].tolist() == [255, 0, 0]
        and int(out[:, 3, 3].sum()) == 0
        and int(black.sum()) == 0
    )
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[0, 0] = True
    tinted = utils.draw_segmentation_masks(black, mask, alpha=1.0, colors=[(0, 9, 0)])
    assert tinted[:, 0, 0].tolist() == [0, 9, 0] and int(tinted.sum()) == 9


def test_boxes():
    boxes = torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3], [10, 10, 12, 12]])
    assert ops.box_iou(boxes, boxes)[0].tolist() == pytest.approx([1, 1 / 7, 0])
    forms = ["xyxy", "xywh", "cxcywh"]
    for a in forms:
        for b in forms:
            assert torch.equal(ops.box_convert(ops.box_convert(boxes, a, b), b, a), boxes)
    scores = torch.tensor([0.3, 0.9, 0.5])
    assert ops.nms(boxes, scores, 0.1).tolist() == [1, 2]
    assert ops.nms(boxes, scores, 0.5).tolist() == [1, 2, 0]
    assert ops.batched_nms(boxes, scores, torch.tensor([0, 1, 1]), 0.1).tolist() == [1, 2, 0]
    assert ops.clip_boxes_to_image(boxes, (2, 3))[1].tolist() == [1, 1, 3, 2]


# ---------------------------------------------------------------------------------- a program


@needs_pillow
def test_cifar_example(tmp_path):
    script = pathlib.Path(__file__).parents[1] / "examples" / "cifar_resnet.py"
    arguments = ["--fake", "64", "--epochs", "1", "--batch-size", "32", "--out", str(tmp_path)]
    done = finished("-W", "error", "-m", "rushlight", script, *arguments)
    assert done.stdout.startswith("272,474 parameters\nepoch 1 loss 2.")
    assert torch.load(tmp_path / "cifar_resnet.pt")["epochs"] == 1


def roi_point(image, y, x):
    """The number between the pixels at (y, x); 0 more than a pixel outside."""
    h, w = image.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    top, left = int(y), int(x)
    down, right = min(top + 1, h - 1), min(left + 1, w - 1)
    a, b = y - top, x - left
    upper = (1 - b) * image[top, left] + b * image[top, right]
    lower = (1 - b) * image[down, left] + b * image[down, right]
    return (1 - a) * upper + a * lower


@pytest.mark.parametrize("ratio", [-1, 1, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align_is_the_mean_of_points(ratio, aligned):
    images = np.random.default_rng(0).normal(size=(2, 3, 7, 9))
    boxes = [[0, 1.0, 2.0, 15.0, 11.0], [1, -4.0, -3.0, 6.0, 20.0], [1, 3.0, 3.0, 3.2, 3.4]]
    got = ops.roi_align(torch.tensor(images), torch.tensor(boxes), (2, 3), 0.5, ratio, aligned)
    want = np.zeros((3, 3, 2, 3))
    for k, (n, *corners) in enumerate(boxes):
        x1, y1, x2, y2 = (c * 0.5 - 0.5 * aligned for c in corners)
        h, w = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1), max(x2 - x1, 1))
        down, along = (ratio, ratio) if ratio > 0 else (math.ceil(h / 2), math.ceil(w / 3))
        for c, i, j in np.ndindex(3, 2, 3):
            ys = [y1 + h / 2 * (i + (a + 0.5) / down) for a in range(down)]
            xs = [x1 + w / 3 * (j + (b + 0.5) / along) for b in range(along)]
            want[k, c, i, j] = np.mean([roi_point(images[n, c], y, x) for y in ys for x in xs])
    np.testing.assert_allclose(got.numpy(), want, atol=1e-5)
    x = torch.tensor(images, requires_grad=True)
    lists = [torch.tensor([boxes[0][1:]]), torch.tensor([b[1:] for b in boxes[1:]])]
    layer = ops.RoIAlign((2, 3), 0.5, ratio, aligned)
    layer(x, lists).sum().backward()
    assert torch.equal(layer(x, lists).detach(), got)
    assert bool(x.grad.abs().sum() > 0)


def test_distances_and_ratios_of_boxes():
    box = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
    others = torch.tensor([[0.0, 0.0, 2.0, 2.0], [2.0, 0.0, 4.0, 2.0], [0.0, 0.0, 4.0, 2.0]])
    # middles 0, 2 and 1 apart; diagonals squared 8, 20 and 20
    distances = [1.0, 0 - 4 / 20, 0.5 - 1 / 20]
    assert ops.distance_box_iou(box, others)[0].tolist() == pytest.approx(distances)
    v = 4 / math.pi**2 * (math.atan(1) - math.atan(2)) ** 2
    distances[2] -= v * v / (1 - 0.5 + v)
    assert ops.complete_box_iou(box, others)[0].tolist() == pytest.approx(distances)


def test_intermediate_layers():
    from rushlight.vision.models.blocks import IntermediateLayerGetter

    model = models.resnet18()
    model.eval()
    body = IntermediateLayerGetter(model, {"layer1": "low", "layer3": "high"})
    x = torch.rand(1, 3, 32, 32)
    found = body(x)
    low = model.layer1(model.maxpool(model.relu(model.bn1(model.conv1(x)))))
    assert list(found) == ["low", "high"]
    assert torch.equal(found["low"], low)
    assert torch.equal(found["high"], model.layer3(model.layer2(low)))
    assert list(body) == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3"]
    with pytest.raises(ValueError, match="return_layers are not present in model"):
        IntermediateLayerGetter(model, {"layer9": "x"})
