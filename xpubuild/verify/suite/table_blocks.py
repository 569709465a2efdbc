"""Parts of networks: a block of a U-Net, an encoder with padding, and recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import Case, Input, integers, normal, uniform
from .ways import USUAL

_MODES = ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
_USUAL: dict[str, Any] = {
    "types": ("float32", "bfloat16"),
    "grad": True,
    "strided": False,
    "nan": False,
    "slack": 32.0,
}
_WIDTH, _HEADS = 32, 4


def _matrix(*shape: int) -> Input:
    size = 1.0
    for one in shape[1:]:
        size *= one
    return uniform(-((3 / size) ** 0.5), (3 / size) ** 0.5, *shape)


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


def _encoder_weights() -> list[Input]:
    norm, shift = uniform(0.5, 1.5, _WIDTH), uniform(-0.5, 0.5, _WIDTH)
    return [
        _matrix(3 * _WIDTH, _WIDTH), uniform(-0.5, 0.5, 3 * _WIDTH), _matrix(_WIDTH, _WIDTH), shift,
        _matrix(2 * _WIDTH, _WIDTH), uniform(-0.5, 0.5, 2 * _WIDTH), _matrix(_WIDTH, 2 * _WIDTH), shift,
        norm, shift, norm, shift,
    ]  # fmt: skip


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
        network = getattr(torch.nn, name)(
            9, 16, 2, bidirectional=True, batch_first=True, device=x.device, dtype=x.dtype
        )
        names = [one for one, _ in network.named_parameters()]
        pack, pad = (
            getattr(torch.nn.utils.rnn, one) for one in ("pack_padded_sequence", "pad_packed_sequence")
        )
        packed = pack(x, lengths[: len(x)].cpu(), batch_first=True, enforce_sorted=False)
        found, _ = torch.func.functional_call(network, dict(zip(names, weights)), (packed,))
        return pad(found, batch_first=True, total_length=x.shape[1])[0]

    return call


def _recurrent_weights(gates: int) -> list[Input]:
    found = []
    for size in (9, 9, 32, 32):
        found += [uniform(-0.3, 0.3, gates * 16, size), uniform(-0.3, 0.3, gates * 16, 16)]
        found += [uniform(-0.3, 0.3, gates * 16)] * 2
    return found


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    channels = [uniform(0.5, 1.5, 8), uniform(-0.5, 0.5, 8)]
    kernels = [_matrix(8, 8, 3, 3), _matrix(8, 8, 4, 4), _matrix(8, 24, 3, 3)]
    for mode in _MODES:
        repeatable = USUAL if mode in ("nearest", "bilinear") else USUAL[:1]
        ways = (*repeatable, "compiled") if mode == "bilinear" else repeatable
        yield Case(
            f"U-Net block {mode}",
            _unet(torch, mode),
            [normal(2, 8, 18, 14), *channels, *kernels],
            ways=ways,
            **_USUAL,
        )
    texts = [normal(3, 12, _WIDTH), integers(4, 12, 12), *_encoder_weights()]
    defined = _encoder(torch, defined=True)
    yield Case(
        "encoder with padding",
        _encoder(torch, defined=False),
        texts,
        reference=defined,
        ways=(*USUAL, "exported"),
        **_USUAL,
    )
    yield Case(
        "encoder of torch with padding",
        _encoder_of_torch(torch),
        texts,
        reference=_encoder(torch, defined=True, activation="relu"),
        **{**_USUAL, "grad": False, "slack": 32.0},
    )
    for name, gates in (("LSTM", 4), ("GRU", 3)):
        yield Case(
            name,
            _recurrent(torch, name),
            [normal(3, 11, 9), integers(3, 11, 12), *_recurrent_weights(gates)],
            ways=("checkpointed",),
            **{**_USUAL, "types": ("float32",), "slack": 64.0},
        )
