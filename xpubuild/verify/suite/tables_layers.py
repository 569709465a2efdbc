"""Layers of networks: normalisation, losses, convolution, pooling, interpolation, attention, recurrence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import ALL_NAN, EXACT, NO_NAN, SINGLE, Case, named, rows, slack
from .tables_workloads import opened


def norms(torch: Any) -> Iterator[Case]:
    """Return normalisation, in training and in inference."""
    f = torch.nn.functional
    for groups in (1, 2, 6):
        call = lambda x, w, b, g=groups: f.group_norm(x, g, w, b)  # noqa: E731
        yield Case(f"group_norm {groups}", call, "n3x6x7x5 n6*2", "n3x6x70x61 n6*2", grad=True, slack=8)
    sizes = (
        ("n9x5 n5*2", "n4099x19 n19*2"),
        ("n3x5x7x6 n5*2", "n4x5x64x61 n5*2"),
        ("n3x4x3x5x4 n4*2", "n3x4x9x31x29 n4*2"),
    )
    for rank, inputs in enumerate(sizes, 1):
        for training, more in ((True, ""), (False, " in inference")):
            yield Case(f"batch_norm {rank}d{more}", _batch_norm(torch, training), *inputs, grad=True, slack=8)

    def exported(x: Any, w: Any, b: Any) -> Any:
        state = torch.zeros_like(w), torch.ones_like(w)
        return torch.ops.aten._native_batch_norm_legit(x, w, b, *state, True, 0.3, 1e-5)

    # fmt: off
    last: Any = lambda x, w, b: f.layer_norm(x, x.shape[-1:], w, b)  # noqa: E731
    yield from rows(
        torch,
        ("layer_norm", last, "n3x5x33 n33*2", slack(4)),
        ("wide layer_norm", last, "n2x1024 n1024*2", "n70x1056 n1056*2"),
        ("layer_norm of planes", lambda x: f.layer_norm(x, x.shape[1:], eps=1e-3), "n3x5x33", "n3x200x133"),
        ("rms_norm", lambda x, w: f.rms_norm(x, x.shape[-1:], w), "n3x5x64 n64", "n2x70x512 n512"),
        ("instance_norm", lambda x, w, b: f.instance_norm(x, weight=w, bias=b), "n3x4x7x6 n4*2",
         "n3x4x80x77 n4*2"),
        ("batch_norm as exported", exported, "n3x5x7x6 n5*2", "n4x5x64x61 n5*2", {"grad": False}),
        grad=True, slack=8,
    )
    # fmt: on


def _batch_norm(torch: Any, training: bool) -> Any:
    def call(x: Any, weight: Any, bias: Any) -> Any:
        mean, var = torch.full_like(weight, 0.25).detach(), torch.full_like(weight, 1.5).detach()
        found = torch.nn.functional.batch_norm(x, mean, var, weight, bias, training, 0.3)
        return (found, mean, var) if training else found

    return call


def losses(torch: Any) -> Iterator[Case]:
    """Return losses, reduced and not, with ignored classes and weights."""
    f = torch.nn.functional
    logits, many, pair, large = "n9x13 i0:13@9", "n700x131 i0:131@700", "n9x13*2", "n700x131*2"
    for name in ("cross_entropy", "nll_loss"):
        for how in ("mean", "sum", "none"):
            call = lambda x, t, n=name, h=how: getattr(f, n)(x, _ignored(t), ignore_index=-100, reduction=h)  # noqa: E731
            yield Case(f"{name} {how}", call, logits, many, grad=True, slack=8)
    # fmt: off
    pairs: dict[str, Any] = {
        "mse_loss": f.mse_loss,
        "l1_loss": f.l1_loss,
        "smooth_l1_loss": f.smooth_l1_loss,
        "huber_loss": lambda x, y, **o: f.huber_loss(x, y, delta=0.7, **o),
        "kl_div": lambda x, y, **o: f.kl_div(x.log_softmax(1), y.softmax(1), **o),
        "binary_cross_entropy_with_logits":
            lambda x, y, **o: f.binary_cross_entropy_with_logits(x, y.sigmoid(), **o),
        "binary_cross_entropy": lambda x, y, **o: f.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **o),
    }
    for name, loss in pairs.items():
        for how in ("batchmean" if name == "kl_div" else "mean", "none"):
            reduced = lambda x, y, c=loss, h=how: c(x, y, reduction=h)  # noqa: E731
            factor = 32 if name.startswith("binary") else 8
            yield Case(f"{name} {how}", reduced, pair, large, grad=True, slack=factor)
    planes, wide = "n3x5x7x6 i0:5@3x7x6", "n3x5x150x161 i0:5@3x150x161"
    weighted, more, flat = f"{logits} u.5:2@13", f"{many} u.5:2@131", {"strided": False}
    yield from rows(
        torch,
        ("cross_entropy smooth", lambda x, t, w: f.cross_entropy(x, t, w.detach(), label_smoothing=0.1),
         weighted, more),
        ("cross_entropy of probabilities", lambda x, t: f.cross_entropy(x, t.softmax(1)), "n9x13*2"),
        # Not strided: the CPU's gradient wants its input to be contiguous.
        ("nll_loss2d", lambda x, t: f.nll_loss(x, t, ignore_index=2), planes, wide, flat),
        ("nll_loss of many", named(f, "nll_loss", reduction="none"), "n9x5 i0:5@9", "n70001x3 i0:3@70001"),
        ("nll_loss2d none", named(f, "nll_loss", reduction="none"), planes, wide, {"grad": False}),
        ("nll_loss weighted", lambda x, t, w: f.nll_loss(x, t, w.detach()), weighted, more, {"grad": False}),
        ("ctc_loss", lambda x, t: f.ctc_loss(x.log_softmax(2), t, (20, 20, 20), (5, 4, 3)),
         "n20x3x7 i1:7@3x5",
         SINGLE, NO_NAN, flat, slack(64)),
        grad=True, slack=8,
    )
    # fmt: on


def _ignored(target: Any) -> Any:
    """Every third target has no class."""
    changed = target.clone()
    changed[::3] = -100
    return changed


def convolve(torch: Any) -> Iterator[Case]:
    """Return convolution and pooling."""
    f = torch.nn.functional
    sizes = (("3x4x17", "5x4x400"), ("3x4x9x8", "3x4x71x67"), ("2x4x5x6x7", "2x4x17x18x19"))
    for rank, (small, many) in enumerate(sizes, 1):
        k, outputs = "x3" * rank, 16 if rank == 1 else 6
        turned = {"stride": 2, "padding": 1, "output_padding": 1}
        # fmt: off
        plain = f"conv{rank}d"
        yield from rows(
            torch,
            (plain, named(f, plain, padding=1), f"n{small} n6x4{k} n6",
             f"n{many} n{outputs}x4{k} n{outputs}"),
            (f"{plain} strided", named(f, plain, stride=2, dilation=2, padding=2, groups=2),
             f"n{small} n6x2{k}"),
            (f"{plain} depthwise", named(f, plain, padding=1, groups=4), f"n{small} n4x1{k}",
             f"n{many} n4x1{k}"),
            (f"conv_transpose{rank}d", named(f, f"conv_transpose{rank}d", **turned), f"n{small} n4x6{k} n6",
             f"n{many} n4x6{k} n6"),
            grad=True, slack=16,
        )
        # fmt: on
    pools = (("3x4x17", "3x4x11003"), ("3x4x9x8", "3x4x121x119"), ("2x3x7x6x8", "2x3x31x29x27"))
    for rank, (small, many) in enumerate(pools, 1):
        # Where two numbers are nearly equal, a small change moves the gradient, and any gradient is right.
        unequal = f"r{many}"
        for name in (f"max_pool{rank}d", f"avg_pool{rank}d"):
            yield Case(name, named(f, name, 3, 2, padding=1), f"n{small}", unequal, grad=True, slack=8)
            overlapping = named(f, name, 3, 1, padding=1)
            yield Case(f"{name} overlapping", overlapping, f"n{small}", unequal, grad=True, slack=8)
        for name, large in (
            (f"adaptive_avg_pool{rank}d", f"n{many}"),
            (f"adaptive_max_pool{rank}d", unequal),
        ):
            yield Case(name, named(f, name, (5, 3, 4)[:rank]), f"n{small}", large, grad=True, slack=8)
    last: Any = lambda x: x.contiguous(memory_format=torch.channels_last)  # noqa: E731
    image, wide = "n3x4x9x8", "n3x4x81x79"
    # fmt: off
    yield from rows(
        torch,
        ("conv2d channels last", lambda x, w, b: f.conv2d(last(x), w, b, padding=1), f"{image} n6x4x3x3 n6",
         "n3x8x71x67 n8x8x3x3 n8"),
        ("conv2d 1x1", f.conv2d, "n2x64x14x14 n32x64x1x1 n32"),
        ("conv2d 7x7", named(f, "conv2d", stride=2, padding=3), "n1x3x56x56 n64x3x7x7 n64"),
        ("conv2d of one pixel", f.conv2d, "n1x5x1x1 n7x5x1x1 n7"),
        ("conv2d in double precision", named(f, "conv2d", padding=1), f"{image} n6x4x3x3 n6",
         {"types": ("float64",)}),
        ("fold", named(f, "fold", (9, 8), 3, padding=1), "n3x36x72", "n400x36x72"),
        ("im2col", named(f, "unfold", 3, stride=2), image, wide, slack(1)),
        ("linear", f.linear, "n5x33 n17x33 n17", "n400x65 n190x65 n190"),
        ("adaptive_avg_pool3d of many", named(f, "adaptive_avg_pool3d", (5, 3, 4)), "n2x3x7x6x8",
         "n110x11x6x4x5",
         {"grad": False}, slack(8)),
        ("avg_pool2d divisor", named(f, "avg_pool2d", 2, divisor_override=3), image, slack(1)),
        ("max_pool2d indices", named(f, "max_pool2d", 2, return_indices=True), "d3x4x9x200", EXACT,
         {"grad": False},
         slack(1)),
        ("max_pool2d dilated", named(f, "max_pool2d", 2, 1, dilation=2, ceil_mode=True), image, slack(4)),
        ("channels last max_pool2d", lambda x: f.max_pool2d(last(x), 3, 2), image, "n3x4x121x119", slack(8)),
        grad=True, slack=16,
    )
    # fmt: on


def layers(torch: Any) -> Iterator[Case]:  # noqa: C901 - a table
    """Return interpolation, embedding, attention and recurrent networks."""
    f = torch.nn.functional
    modes = """nearest 1, nearest 2, nearest 3, nearest-exact 2, linear 1, bilinear 2, trilinear 3, bicubic 2,
        area 2"""
    sizes = {1: ("n3x4x7", "n30x40x70"), 2: ("n3x4x7x6", "n3x4x90x81"), 3: ("n3x4x7x6x5", "n2x3x21x19x23")}
    for mode, number in (entry.split() for entry in modes.split(",")):
        rank, scaled = int(number), {"scale_factor": 1.75, "mode": mode, "recompute_scale_factor": True}
        for aligned in (None, True) if "linear" in mode or mode == "bicubic" else (None,):
            call = named(f, "interpolate", align_corners=aligned, **scaled)
            text = f"interpolate {mode} {rank}d aligned={aligned}"
            yield Case(text, call, *sizes[rank], grad=True, slack=256)
        smaller = named(f, "interpolate", size=(4, 3, 2)[:rank], mode=mode)
        yield Case(f"interpolate {mode} {rank}d smaller", smaller, sizes[rank][0], grad=True, slack=64)
    for mode in ("bilinear", "nearest", "bicubic"):
        once: dict[str, Any] = {"types": ("float32",), "slack": 64}
        if mode != "nearest":
            call = named(f, "interpolate", size=(11, 9), mode=mode, antialias=True)
            yield Case(f"interpolate {mode} antialias", call, "n3x4x23x21", "n3x4x123x121", grad=True, **once)
        for pad in ("zeros", "border", "reflection"):
            call = named(f, "grid_sample", mode, pad, align_corners=False)
            inputs = "n3x4x7x6 u-1.3:1.3@3x9x8x2", "n3x4x70x61 u-1.3:1.3@3x79x78x2"
            yield Case(f"grid_sample {mode} {pad}", call, *inputs, grad=mode == "bilinear", **once)
    for aligned, what in (
        (True, "halves"),
        (False, "sixteenths"),
    ):  # cuDNN has the first in float16, torch the other
        # Sixteenths of pixels: short types hold these places.
        sample = lambda x, g, a=aligned: f.grid_sample(x, g.to(x.dtype) / 8, align_corners=a)  # noqa: E731
        yield Case(f"grid_sample of {what}", sample, "n3x4x9x9 i-8:9@3x5x7x2", slack=4, nan=ALL_NAN)
    bags, table, more = "i0:40@5x7 n40x33", "i0:40@5x7 n40x33", "i0:400@1500x7 n400x65"
    for mode in ("sum", "mean", "max"):
        yield Case(f"embedding_bag {mode}", named(f, "embedding_bag", mode=mode), bags, more, grad=True,
                   slack=8, nan=mode != "max")  # fmt: skip
    attend = f.scaled_dot_product_attention
    three, many, grouped = "n2x4x33x32*3", "n2x4x140x64*3", "n2x4x33x32 n2x2x33x32*2"
    # fmt: off
    yield from rows(
        torch,
        ("grid_sample 3d", named(f, "grid_sample", align_corners=True), "n2x3x5x6x7 u-1.2:1.2@2x4x5x6x3",
         "n2x3x15x16x17 u-1.2:1.2@2x24x25x26x3", SINGLE, slack(64), {"nan": ALL_NAN}),
        ("embedding", named(f, "embedding", padding_idx=3), table, "i0:1100@50x37 n1100x65"),
        ("embedding_bag weighted", lambda i, w, s: f.embedding_bag(i, w, mode="sum", per_sample_weights=s),
         f"{bags} n5x7", SINGLE),
        ("one_hot", named(f, "one_hot", 40), "i0:40@5x7", "i0:40@5x701", {"grad": False}, slack(1)),
        ("attention", attend, three, many),
        ("attention causal", lambda q, k, v: attend(q, k, v, is_causal=True), three, many, NO_NAN),
        ("attention of transposed heads", lambda *given: attend(*(one.transpose(1, 2) for one in given)),
         "n2x33x4x32*3"),
        ("attention scaled", lambda q, k, v: attend(q, k, v, scale=0.3), three),
        ("attention masked", lambda q, k, v, m: attend(q, k, v, opened(m)), f"{three} b2x1x33x33",
         f"{many} b2x1x140x140", NO_NAN),
        ("attention biased", attend, f"{three} n2x4x33x33"),
        ("attention grouped by torch", lambda q, k, v: attend(q, k, v, enable_gqa=True), grouped),
        grad=True, slack=8,
    )
    # fmt: on

    def weights(gates: int, size: int, hidden: int) -> str:
        side = gates * hidden
        return f"u-.3:.3@{side}x{size} u-.3:.3@{side}x{hidden} u-.3:.3@{side}*2"

    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        inputs = f"n7x5x9 n1x5x16 {weights(gates, 9, 16)}", f"n70x60x9 n1x60x16 {weights(gates, 9, 16)}"
        nan = ALL_NAN if name != "rnn_relu" else False
        yield Case(name, _rnn(torch, name), *inputs, grad=True, slack=64, nan=nan)
        if name != "rnn_relu":
            inputs = f"n5x9 n5x16 {weights(gates, 9, 16)}", f"n300x9 n300x240 {weights(gates, 9, 240)}"
            yield Case(f"{name} cell", _cell(torch, name), *inputs, grad=True, slack=16, nan=ALL_NAN)


def _cell(torch: Any, name: str) -> Any:
    return lambda x, h, *w: getattr(torch, f"{name}_cell")(x, (h, h * 0.5) if name == "lstm" else h, *w)


def _rnn(torch: Any, name: str) -> Any:
    def call(x: Any, *given: Any) -> Any:
        state, *weights = (one.contiguous() for one in given)  # cuDNN refuses others
        states = (state, state * 0.5) if name == "lstm" else state
        return getattr(torch, name)(x, states, weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)

    return call
