"""Losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import Case, integers, normal, uniform


def _losses(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    logits, classes = normal(9, 13), integers(0, 13, 9)
    many, many_classes = normal(700, 131), integers(0, 131, 700)
    for how in ("mean", "sum", "none"):
        yield Case(
            f"cross_entropy {how}",
            lambda x, t, h=how: f.cross_entropy(x, _ignored(t), ignore_index=-100, reduction=h),
            [logits, classes],
            [many, many_classes],
            grad=True,
            slack=8,
        )
        yield Case(
            f"nll_loss {how}",
            lambda x, t, h=how: f.nll_loss(x, _ignored(t), ignore_index=-100, reduction=h),
            [logits, classes],
            [many, many_classes],
            grad=True,
            slack=8,
        )
    yield Case(
        "cross_entropy smooth",
        lambda x, t, w: f.cross_entropy(x, t, w.detach(), label_smoothing=0.1),
        [logits, classes, uniform(0.5, 2, 13)],
        [many, many_classes, uniform(0.5, 2, 131)],
        grad=True,
        slack=8,
    )
    yield Case(
        "cross_entropy of probabilities",
        lambda x, t: f.cross_entropy(x, t.softmax(1)),
        [logits, logits],
        grad=True,
        slack=8,
    )
    yield Case(
        "nll_loss2d",
        lambda x, t: f.nll_loss(x, t, ignore_index=2),
        [normal(3, 5, 7, 6), integers(0, 5, 3, 7, 6)],
        [normal(3, 5, 150, 161), integers(0, 5, 3, 150, 161)],
        grad=True,
        slack=8,
        strided=False,  # the CPU's gradient wants its input to be contiguous
    )
    yield Case(
        "nll_loss of many",
        lambda x, t: f.nll_loss(x, t, reduction="none"),
        [normal(9, 5), integers(0, 5, 9)],
        [normal(70001, 3), integers(0, 3, 70001)],
        grad=True,
        slack=8,
    )
    yield Case(
        "nll_loss2d none",
        lambda x, t: f.nll_loss(x, t, reduction="none"),
        [normal(3, 5, 7, 6), integers(0, 5, 3, 7, 6)],
        [normal(3, 5, 150, 161), integers(0, 5, 3, 150, 161)],
        slack=8,
    )
    yield Case(
        "nll_loss weighted",
        lambda x, t, w: f.nll_loss(x, t, w.detach()),
        [logits, classes, uniform(0.5, 2, 13)],
        [many, many_classes, uniform(0.5, 2, 131)],
        slack=8,
    )
    pairs: dict[str, Any] = {
        "mse_loss": f.mse_loss,
        "l1_loss": f.l1_loss,
        "smooth_l1_loss": f.smooth_l1_loss,
        "huber_loss": lambda x, y, **o: f.huber_loss(x, y, delta=0.7, **o),
        "kl_div": lambda x, y, **o: f.kl_div(x.log_softmax(1), y.softmax(1), **o),
        "binary_cross_entropy_with_logits": lambda x, y, **o: f.binary_cross_entropy_with_logits(
            x, y.sigmoid(), **o
        ),
        "binary_cross_entropy": lambda x, y, **o: f.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **o),
        "poisson_nll_loss": lambda x, y, **o: f.poisson_nll_loss(x, y.exp(), **o),
        "soft_margin_loss": lambda x, y, **o: f.soft_margin_loss(x, y.detach().sign(), **o),
        "hinge_embedding_loss": lambda x, y, **o: f.hinge_embedding_loss(x, y.detach().sign(), **o),
        "gaussian_nll_loss": lambda x, y, **o: f.gaussian_nll_loss(x, y, y.exp() + 0.1, **o),
    }
    for name, call in pairs.items():
        for how in ("batchmean" if name == "kl_div" else "mean", "none"):
            yield Case(
                f"{name} {how}",
                lambda x, y, c=call, h=how: c(x, y, reduction=h),
                [normal(9, 13), normal(9, 13)],
                [normal(700, 131), normal(700, 131)],
                grad=True,
                slack=32 if name.startswith("binary") else 8,
            )
    yield Case(
        "cosine_similarity",
        f.cosine_similarity,
        [normal(9, 13), normal(9, 13)],
        [normal(700, 131), normal(700, 131)],
        grad=True,
        slack=8,
    )
    yield Case("triplet_margin_loss", f.triplet_margin_loss, [normal(9, 13)] * 3, grad=True, slack=8)
    yield Case(
        "multi_margin_loss", f.multi_margin_loss, [logits, classes], grad=True, slack=8, types=("float32",)
    )
    yield Case(
        "ctc_loss",
        lambda x, t: f.ctc_loss(x.log_softmax(2), t, (20, 20, 20), (5, 4, 3)),
        [normal(20, 3, 7), integers(1, 7, 3, 5)],
        grad=True,
        slack=64,
        types=("float32",),
        nan=False,
        strided=False,
    )


def _ignored(target: Any) -> Any:
    """Every third target has no class."""
    changed = target.clone()
    changed[::3] = -100
    return changed


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _losses(torch)
