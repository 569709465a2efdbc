"""Backends of attention, and parts of networks."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Iterator
from typing import Any

from .cases import Case, rows
from .ways import USUAL

_BACKENDS = ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE")
_HEAD = 32
#: Warnings but for those that say that an operator runs on the CPU.
_NOT_OF_PLACES = "(?!.*falling back to run)"


def attention(torch: Any) -> Iterator[Case]:
    """Return each backend of attention that the device has, and FlexAttention, against the definition."""
    # Short types first: some backends have no others.
    usual: Any = {"types": ("bfloat16", "float16", "float32"), "strided": False, "nan": False, "slack": 8.0}
    whole, grouped = f"n2x4x70x{_HEAD}*3", f"n2x4x70x{_HEAD} n2x2x70x{_HEAD}*2"
    uses = (("", whole, False), (" causal", grouped, True),
            (" cross", f"n2x4x9x{_HEAD} n2x4x150x{_HEAD}*2", False),
            (" masked", f"{whole} b2x1x70x70", False))  # fmt: skip
    for backend in _BACKENDS:
        for what, inputs, causal in uses:
            call, defined = _by(torch, backend, causal=causal), _defined(torch, causal=causal)
            yield Case(f"{backend}{what}", call, inputs, reference=defined, grad=True, **usual)
    aligned, shared = f"n1x4x256x{_HEAD}*3", f"n1x4x256x{_HEAD} n1x2x256x{_HEAD}*2"
    defined = _defined(torch, causal=True, bias=_nearer)
    flexible = (("", aligned, False), (" grouped", shared, False), (" with gradients", aligned, True))
    for what, inputs, grad in flexible:
        options = {**usual, "types": ("float32", "bfloat16"), "grad": grad, "reference": defined}
        yield Case(f"FlexAttention{what}", _flexible(torch, grouped=inputs is shared), inputs, **options)


def _defined(torch: Any, *, causal: bool, bias: Any = None) -> Any:
    """Return attention by its definition; key heads may be fewer than query heads, masks are additions."""

    def call(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (k, v))
        scores = q @ k.mT / _HEAD**0.5
        rows, columns = scores.shape[-2:]
        if bias is not None:
            scores = bias(scores, torch.arange(rows)[:, None], torch.arange(columns))
        if causal:
            scores = scores.masked_fill(torch.ones(rows, columns).bool().triu(1), float("-inf"))
        for one in mask:
            scores = scores.masked_fill(~opened(one), float("-inf"))
        return scores.softmax(-1) @ v

    return call


def opened(mask: Any) -> Any:
    """Each query may look at the first key: no row is empty."""
    first = mask.new_zeros(mask.shape[-1])
    first[0] = True
    return mask | first


def _by(torch: Any, backend: str, *, causal: bool) -> Any:
    """Return attention by one backend; RuntimeError where it does not take the inputs."""

    def call(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (k, v))
        if not hasattr(SDPBackend, backend):
            raise NotImplementedError(f"{backend} is not compiled with this torch")
        with sdpa_kernel([getattr(SDPBackend, backend)]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", _NOT_OF_PLACES)  # why it does not take them
            masks = [opened(one) for one in mask]
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, *masks, is_causal=causal)

    return call


def _flexible(torch: Any, *, grouped: bool) -> Any:
    """Return FlexAttention, causal by a block mask and with a bias that grows with the distance.

    It is compiled, as it is meant to be; on the CPU, where that takes long, it runs as it is.
    """

    def before(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return query >= key

    def nearer(score: Any, _batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return _nearer(score, query, key)

    def call(q: Any, k: Any, v: Any) -> Any:
        try:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        except ImportError as error:  # it came with torch 2.5
            raise NotImplementedError(f"not compiled with this torch: {error}") from error

        run = flex_attention
        if q.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
            run = torch.compile(flex_attention, fullgraph=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _NOT_OF_PLACES)  # that it is slow unless it is compiled
            mask = create_block_mask(before, None, None, q.shape[2], k.shape[2], device=str(q.device))
            return run(q, k, v, score_mod=nearer, block_mask=mask, enable_gqa=grouped)

    return call


def _nearer(score: Any, query: Any, key: Any) -> Any:
    """Take from a score what grows with the distance."""
    return score - 0.125 * (query - key).abs()


_WIDTH, _HEADS = 32, 4


def _matrix(*shape: int) -> str:
    bound = (3 / math.prod(shape[1:])) ** 0.5
    return f"u{-bound}:{bound}@{'x'.join(map(str, shape))}"


def blocks(torch: Any) -> Iterator[Case]:
    """Return a block of a U-Net, an encoder with padding, and recurrent networks."""
    usual: dict[str, Any] = {"strided": False, "nan": False}
    kernels = " ".join(_matrix(8, *shape) for shape in ((8, 3, 3), (8, 4, 4), (24, 3, 3)))
    image = f"n2x8x18x14 u.5:1.5@8 u-.5:.5@8 {kernels}"
    types: dict[str, Any] = {"types": ("float32", "bfloat16"), "slack": 32.0}
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
        repeatable = USUAL if mode in ("nearest", "bilinear") else USUAL[:1]
        ways = (*repeatable, "compiled") if mode == "bilinear" else repeatable
        yield Case(f"U-Net block {mode}", _unet(torch, mode), image, ways=ways, grad=True, **types, **usual)
    shift, norm = f"u-.5:.5@{_WIDTH}", f"u.5:1.5@{_WIDTH}"
    texts = (
        f"n3x12x{_WIDTH} i4:12@12 {_matrix(3 * _WIDTH, _WIDTH)} u-.5:.5@{3 * _WIDTH} "
        f"{_matrix(_WIDTH, _WIDTH)} "
        f"{shift} {_matrix(2 * _WIDTH, _WIDTH)} u-.5:.5@{2 * _WIDTH} {_matrix(_WIDTH, 2 * _WIDTH)} {shift} "
        f"{norm} {shift} {norm} {shift}"
    )
    defined, by_relu = _encoder(torch, defined=True), _encoder(torch, defined=True, activation="relu")
    all_ways = (*USUAL, "exported")

    def recurrent(gates: int) -> str:
        layers = [
            f"u-.3:.3@{gates * 16}x{size} u-.3:.3@{gates * 16}x16 u-.3:.3@{gates * 16}*2"
            for size in (9, 9, 32, 32)
        ]
        return " ".join(["n3x11x9 i3:11@12", *layers])

    recurring = {"ways": ("checkpointed",), "grad": True, "types": ("float32",), "slack": 64.0}
    yield from rows(
        torch,
        ("encoder with padding", _encoder(torch, defined=False), texts, types,
         {"reference": defined, "ways": all_ways, "grad": True}),
        ("encoder of torch with padding", _encoder_of_torch(torch), texts, types, {"reference": by_relu}),
        ("LSTM", _recurrent(torch, "LSTM"), recurrent(4), recurring, {"reference": _steps(torch, _lstm)}),
        ("GRU", _recurrent(torch, "GRU"), recurrent(3), recurring, {"reference": _steps(torch, _gru)}),
        **usual,
    )  # fmt: skip


def _unet(torch: Any, mode: str) -> Any:
    """Return two levels of a U-Net: down by stride, up by a transposed convolution and by interpolation."""
    f = torch.nn.functional

    def call(x: Any, gain: Any, shift: Any, *kernels: Any) -> Any:
        down, up, joined = kernels
        fine = f.silu(f.group_norm(x, 4, gain, shift))
        coarse = f.silu(f.group_norm(f.conv2d(fine, down, stride=2, padding=1), 4, gain, shift))
        one = f.conv_transpose2d(coarse, up, stride=2, padding=1)
        # By no whole factor: with one, some modes are the same.
        two = f.interpolate(coarse[..., 1:, 2:], size=fine.shape[2:], mode=mode)
        return f.conv2d(torch.cat((fine, one, two.to(one.dtype)), 1), joined, padding=1)

    return call


def _real(x: Any, lengths: Any) -> Any:
    """Return which places are no padding."""
    return (lengths * 0 + 1).cumsum(0)[: x.shape[1]] - 1 < lengths[: len(x), None]


def _encoder(torch: Any, *, defined: bool, activation: str = "gelu") -> Any:
    """Return a layer of an encoder and its mean over what is no padding."""
    f = torch.nn.functional
    bend = getattr(f, activation)

    def call(x: Any, lengths: Any, *weights: Any) -> Any:
        mixed, mixed_shift, out, out_shift, wide, wide_shift, back, back_shift, *norms = weights
        real = _real(x, lengths)
        parts = f.linear(x, mixed, mixed_shift).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (_HEADS, -1)).transpose(1, 2) for part in parts)
        mask = real[:, None, None]
        if defined:
            scores = q @ k.mT / (_WIDTH // _HEADS) ** 0.5
            seen = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        else:
            seen = f.scaled_dot_product_attention(q, k, v, mask)
        seen = f.linear(seen.transpose(1, 2).flatten(2), out, out_shift)
        x = f.layer_norm(x + seen, (_WIDTH,), *norms[:2])
        inner = bend(f.linear(x, wide, wide_shift))
        x = f.layer_norm(x + f.linear(inner, back, back_shift), (_WIDTH,), *norms[2:])
        x = x.masked_fill(~real[..., None], 0.0)
        return x.sum(1) / real.sum(1, keepdim=True), x

    return call


_NAMES = (
    "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
    "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
    "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias",
)  # fmt: skip


def _encoder_of_torch(torch: Any) -> Any:
    """Return torch's own layer, which takes a short cut where it needs no gradient.

    Not with gelu: on CUDA the short cut has cuBLAS compute it, by its approximation with tanh.
    """

    def call(x: Any, lengths: Any, *weights: Any) -> Any:
        layer = torch.nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, 2 * _WIDTH, 0.0, "relu", batch_first=True, device=x.device, dtype=x.dtype
        ).eval()
        for name, weight in zip(_NAMES, weights):
            layer.get_parameter(name).copy_(weight)
        real = _real(x, lengths)
        found = layer(x, src_key_padding_mask=~real).masked_fill(~real[..., None], 0.0)
        return found.sum(1) / real.sum(1, keepdim=True), found

    return call


def _recurrent(torch: Any, name: str) -> Any:
    """Return a network of two layers and both directions, on texts of several lengths."""

    def call(x: Any, lengths: Any, *weights: Any) -> Any:
        options = {"bidirectional": True, "batch_first": True, "device": x.device, "dtype": x.dtype}
        network = getattr(torch.nn, name)(9, 16, 2, **options)
        named, utils = zip((one for one, _ in network.named_parameters()), weights), torch.nn.utils.rnn
        sizes, one_way = lengths[: len(x)].cpu(), {"batch_first": True, "enforce_sorted": False}
        packed = utils.pack_padded_sequence(x, sizes, **one_way)
        found, _ = torch.func.functional_call(network, dict(named), (packed,))
        return utils.pad_packed_sequence(found, batch_first=True, total_length=x.shape[1])[0]

    return call


def _steps(torch: Any, cell: Any) -> Any:
    """Return the network of ``_recurrent`` by its definition: what torch has for it may be what is wrong."""

    def call(x: Any, lengths: Any, *weights: Any) -> Any:
        real, count = _real(x, lengths), x.shape[1]
        for layer in range(0, len(weights), 8):
            ways = []
            for first in (layer, layer + 4):
                into, between, shift, other = weights[first : first + 4]
                hidden = memory = x.new_zeros(len(x), between.shape[1])
                found: dict[int, Any] = {}
                for time in range(count) if first == layer else reversed(range(count)):
                    parts = x[:, time] @ into.T + shift, hidden @ between.T + other
                    new = cell(*parts, hidden, memory)
                    hidden, memory = (torch.where(real[:, time, None], one, old)
                                      for one, old in zip(new, (hidden, memory)))  # fmt: skip
                    found[time] = hidden.masked_fill(~real[:, time, None], 0.0)
                ways.append(torch.stack([found[time] for time in range(count)], 1))
            x = torch.cat(ways, 2)
        return x

    return call


def _lstm(given: Any, kept: Any, _hidden: Any, memory: Any) -> tuple[Any, Any]:
    enter, forget, new, leave = (given + kept).chunk(4, 1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * memory.tanh(), memory


def _gru(given: Any, kept: Any, hidden: Any, memory: Any) -> tuple[Any, Any]:
    (reset, update, new), (was_reset, was_update, was) = given.chunk(3, 1), kept.chunk(3, 1)
    new = (new + (reset + was_reset).sigmoid() * was).tanh()
    share = (update + was_update).sigmoid()
    return (1 - share) * new + share * hidden, memory
