"""Interpolation, embedding, attention and recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import ALL_NAN, Case, booleans, integers, normal, uniform


def _samples(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    modes = (
        ("nearest", 1),
        ("nearest", 2),
        ("nearest", 3),
        ("nearest-exact", 2),
        ("linear", 1),
        ("bilinear", 2),
        ("trilinear", 3),
        ("bicubic", 2),
        ("area", 2),
    )
    for mode, rank in modes:
        small = (3, 4, 7, 6, 5)[: rank + 2]
        many = {1: (30, 40, 70), 2: (3, 4, 90, 81), 3: (2, 3, 21, 19, 23)}[rank]
        for aligned in (None, True) if "linear" in mode or mode == "bicubic" else (None,):
            yield Case(
                f"interpolate {mode} {rank}d aligned={aligned}",
                lambda x, m=mode, a=aligned: f.interpolate(
                    x, scale_factor=1.75, mode=m, align_corners=a, recompute_scale_factor=True
                ),
                [normal(*small)],
                [normal(*many)],
                grad=True,
                slack=256,
            )
        yield Case(
            f"interpolate {mode} {rank}d smaller",
            lambda x, m=mode, r=rank: f.interpolate(x, size=(4, 3, 2)[:r], mode=m),
            [normal(*small)],
            grad=True,
            slack=64,
        )
    for mode in ("bilinear", "bicubic"):
        yield Case(
            f"interpolate {mode} antialias",
            lambda x, m=mode: f.interpolate(x, size=(11, 9), mode=m, antialias=True),
            [normal(3, 4, 23, 21)],
            [normal(3, 4, 123, 121)],
            grad=True,
            slack=64,
            types=("float32",),
        )
    for mode in ("bilinear", "nearest", "bicubic"):
        for pad in ("zeros", "border", "reflection"):
            yield Case(
                f"grid_sample {mode} {pad}",
                lambda x, g, m=mode, p=pad: f.grid_sample(x, g, m, p, align_corners=False),
                [normal(3, 4, 7, 6), uniform(-1.3, 1.3, 3, 9, 8, 2)],
                [normal(3, 4, 70, 61), uniform(-1.3, 1.3, 3, 79, 78, 2)],
                slack=64,
                types=("float32",),
                grad=mode == "bilinear",
            )
    yield Case(
        "grid_sample 3d",
        lambda x, g: f.grid_sample(x, g, align_corners=True),
        [normal(2, 3, 5, 6, 7), uniform(-1.2, 1.2, 2, 4, 5, 6, 3)],
        slack=64,
        types=("float32",),
        grad=True,
        nan=ALL_NAN,
        large=[normal(2, 3, 15, 16, 17), uniform(-1.2, 1.2, 2, 24, 25, 26, 3)],
    )
    for aligned in (True, False):  # cuDNN has the first in float16, torch's own kernel the second
        yield Case(
            # Sixteenths of pixels: short types hold these places.
            "grid_sample of halves" if aligned else "grid_sample of sixteenths",
            lambda x, g, a=aligned: f.grid_sample(x, g.to(x.dtype) / 8, align_corners=a),
            [normal(3, 4, 9, 9), integers(-8, 9, 3, 5, 7, 2)],
            slack=4,
            nan=ALL_NAN,
        )
    yield Case(
        "affine_grid",
        lambda t: f.affine_grid(t, (3, 2, 5, 6), align_corners=False),
        [normal(3, 2, 3)],
        grad=True,
        slack=8,
        types=("float32",),
    )


def _embeddings(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    yield Case(
        "embedding",
        lambda i, w: f.embedding(i, w, padding_idx=3),
        [integers(0, 40, 5, 7), normal(40, 33)],
        [integers(0, 1100, 50, 37), normal(1100, 65)],
        grad=True,
        slack=8,
    )
    for mode in ("sum", "mean", "max"):
        yield Case(
            f"embedding_bag {mode}",
            lambda i, w, m=mode: f.embedding_bag(i, w, mode=m),
            nan=mode != "max",
            inputs=[integers(0, 40, 5, 7), normal(40, 33)],
            large=[integers(0, 400, 1500, 7), normal(400, 65)],
            grad=True,
            slack=8,
        )
    yield Case(
        "embedding_bag weighted",
        lambda i, w, s: f.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        [integers(0, 40, 5, 7), normal(40, 33), normal(5, 7)],
        grad=True,
        slack=8,
        types=("float32",),
    )
    yield Case("one_hot", lambda i: f.one_hot(i, 40), [integers(0, 40, 5, 7)], [integers(0, 40, 5, 701)])


def _attention(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    attend = f.scaled_dot_product_attention
    three, many = [normal(2, 4, 33, 32)] * 3, [normal(2, 4, 140, 64)] * 3
    yield Case("attention", attend, three, many, grad=True, slack=8)
    yield Case(
        "attention causal",
        lambda q, k, v: attend(q, k, v, is_causal=True),
        three,
        many,
        grad=True,
        slack=8,
        nan=False,
    )
    yield Case("attention scaled", lambda q, k, v: attend(q, k, v, scale=0.3), three, grad=True, slack=8)
    yield Case(
        "attention masked",
        lambda q, k, v, m: attend(q, k, v, _opened(m)),
        [*three, booleans(2, 1, 33, 33)],
        [*many, booleans(2, 1, 140, 140)],
        grad=True,
        slack=8,
        nan=False,
    )
    yield Case(
        "attention biased",
        attend,
        [*three, normal(2, 4, 33, 33)],
        grad=True,
        slack=8,
    )
    yield Case(
        "attention cross",
        attend,
        [normal(2, 4, 9, 32), *[normal(2, 4, 57, 32)] * 2],
        grad=True,
        slack=8,
    )
    yield Case(
        "attention grouped",
        lambda q, k, v: attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True),
        [normal(2, 4, 33, 32), *[normal(2, 2, 33, 32)] * 2],
        grad=True,
        slack=8,
        nan=False,
    )
    yield Case(
        "attention grouped by torch",
        lambda q, k, v: attend(q, k, v, enable_gqa=True),
        [normal(2, 4, 33, 32), *[normal(2, 2, 33, 32)] * 2],
        grad=True,
        slack=8,
    )
    yield Case(
        "attention by definition",
        lambda q, k, v: (q @ k.mT / 32**0.5).softmax(-1) @ v,
        three,
        many,
        grad=True,
        slack=8,
    )
    yield Case(
        "multi_head_attention",
        _heads(torch),
        [normal(9, 3, 32), normal(96, 32), normal(96), normal(32, 32), normal(32)],
        grad=True,
        slack=16,
        nan=False,
    )


def _opened(mask: Any) -> Any:
    """Each query may look at the first key: no row is empty."""
    opened = mask.clone()
    opened[..., 0] = True
    return opened


def _heads(torch: Any) -> Any:
    def call(x: Any, weight: Any, bias: Any, out: Any, last: Any) -> Any:
        return torch.nn.functional.multi_head_attention_forward(
            x,
            x,
            x,
            32,
            4,
            weight / 8,
            bias,
            None,
            None,
            False,
            0.0,
            out / 8,
            last,
            training=False,
            need_weights=False,
        )[0]

    return call


def _recurrent(torch: Any) -> Iterator[Case]:
    def weights(gates: int, size: int, hidden: int) -> list[Any]:
        return [uniform(-0.3, 0.3, gates * hidden, size), uniform(-0.3, 0.3, gates * hidden, hidden),
                uniform(-0.3, 0.3, gates * hidden), uniform(-0.3, 0.3, gates * hidden)]  # fmt: skip

    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        yield Case(
            name,
            _rnn(torch, name),
            [normal(7, 5, 9), normal(1, 5, 16), *weights(gates, 9, 16)],
            [normal(70, 60, 9), normal(1, 60, 16), *weights(gates, 9, 16)],
            grad=True,
            slack=64,
            nan=ALL_NAN if name != "rnn_relu" else False,
        )
        if not name.startswith("rnn_r"):
            cell = {"rnn_tanh": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}[name]
            yield Case(
                f"{name} cell",
                lambda x, h, *w, c=cell, n=name: c(x, (h, h * 0.5) if n == "lstm" else h, *w),
                [normal(5, 9), normal(5, 16), *weights(gates, 9, 16)],
                [normal(300, 9), normal(300, 240), *weights(gates, 9, 240)],
                grad=True,
                slack=16,
                nan=ALL_NAN,
            )


def _rnn(torch: Any, name: str) -> Any:
    def call(x: Any, *given: Any) -> Any:
        state, *weights = (one.contiguous() for one in given)  # cuDNN refuses others
        states = (state, state * 0.5) if name == "lstm" else state
        return getattr(torch, name)(x, states, weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)

    return call


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _samples(torch)
    yield from _embeddings(torch)
    yield from _attention(torch)
    yield from _recurrent(torch)
