"""What moves or indexes elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import LONG_ONLY, Case, booleans, complexes, distinct, integers, normal, uniform, whole

_SHAPE = (7, 5, 33)


def _moves(torch: Any) -> Iterator[Case]:
    functional = torch.nn.functional
    plain: dict[str, Any] = {
        "permute": lambda x: x.permute(2, 0, 1).contiguous(),
        "flip": lambda x: x.flip(0, 2),
        "roll": lambda x: x.roll((3, 5), (1, 2)),
        "rot90": lambda x: x.rot90(1, (0, 2)),
        "cat": lambda x: torch.cat((x, x.flip(0), x), 1),
        "stack": lambda x: torch.stack((x, x.flip(1)), 2),
        "repeat": lambda x: x.repeat(2, 1, 3),
        "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
        "tril": lambda x: x.tril(1),
        "triu": lambda x: x.triu(-1),
        "diag_embed": lambda x: x[:, :, :5].diag_embed(),
        "diagonal": lambda x: x.diagonal(1, 0, 2) * 1,
        "unfold": lambda x: x.unfold(2, 4, 3).contiguous(),
        "slice": lambda x: x[1:, :, ::3] * 1,
        "select": lambda x: x.select(1, 2) * 1,
        "clone": lambda x: x.clone(),
        "narrow": lambda x: x.narrow(2, 3, 9) * 1,
        "split": lambda x: [part * 1 for part in x.split(11, 2)],
        "expand": lambda x: x[:, :1].expand(-1, 4, -1) * 1,
        "as_strided": lambda x: x.contiguous().as_strided((4, 6), (9, 2), 3) * 1,
        "constant_pad_nd": lambda x: functional.pad(x, (1, 2, 3, 0), value=2.5),
        "squeeze": lambda x: x[:1].squeeze(0) * 1,
        "negative pad": lambda x: functional.pad(x, (-1, 2, 0, -1)),
        "movedim": lambda x: x.movedim(0, 2).contiguous(),
        "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :, :9] * 2, 2, 3, 21, 2),
        "select_scatter": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, 2),
        "masked_fill": lambda x: x.masked_fill(x > 0.5, -1.0),
        "masked_select": lambda x: x[x > 0.5],
        "fill": lambda x: torch.full_like(x, 2.5) + x * 0,
        "zeros": lambda x: torch.zeros_like(x) + x * 0,
        "copy": lambda x: torch.empty_like(x).copy_(x),
        "pixel_shuffle": lambda x: functional.pixel_shuffle(x[:, :4, :32].reshape(-1, 4, 4, 8), 2),
    }
    for name, call in plain.items():
        yield Case(
            name,
            call,
            [normal(*_SHAPE)],
            [normal(43, 47, 53)],
            exact=True,
            grad=name not in ("masked_select", "fill", "zeros", "copy"),
        )
    for mode in ("reflect", "replicate", "circular"):
        for rank in (1, 2, 3):
            shape, many = (
                (2, 3, 9, 8, 7)[: rank + 2],
                ((2, 3, 11003), (2, 3, 110, 103), (2, 2, 31, 29, 37))[rank - 1],
            )
            yield Case(
                f"pad {mode} {rank}d",
                lambda x, m=mode, r=rank: functional.pad(x, (2, 1) * r, mode=m),
                [normal(*shape)],
                [normal(*many)],
                grad=True,
            )
    yield Case(
        "arange",
        lambda x: [torch.arange(n, 99999, 7, device=x.device) + x for n in (3, 5)],
        [integers(0, 1, 1)],
    )
    yield Case(
        "arange of numbers",
        lambda x: [torch.arange(n, n + 60, device=x.device, dtype=x.dtype) + x for n in (3, 5)],
        [whole(0, 1, 1)],
        exact=True,
    )
    yield Case(
        "linspace",
        lambda x: torch.linspace(3, 5, 70001, device=x.device, dtype=x.dtype) + x,
        [whole(0, 1, 1)],
        slack=4,
        types=LONG_ONLY,
    )
    yield Case(
        "eye",
        lambda x: torch.eye(300, 290, device=x.device) + x,
        [whole(0, 1, 1)],
        exact=True,
        types=("float32",),
    )
    yield Case(
        "full",
        lambda x: torch.full((300, 290), 2.5, device=x.device) + x,
        [whole(0, 1, 1)],
        exact=True,
        types=("float32",),
    )
    yield Case(
        "scalar_tensor",
        lambda x: torch.scalar_tensor(2.5, device=x.device) + x,
        [whole(0, 1, 1)],
        exact=True,
        types=("float32",),
    )
    yield Case("tril_indices", lambda x: torch.tril_indices(9, 7, device=x.device) + x, [integers(0, 1, 1)])
    yield Case("nonzero", torch.nonzero, [booleans(9, 67)], [booleans(401, 251)])
    yield Case("nonzero of as many", lambda x: (x > 0).nonzero(), [distinct(8, 32)], exact=True, nan=False)
    yield Case("nonzero of numbers", torch.nonzero, [whole(0, 2, 9, 67)], exact=True)
    yield Case(
        "native_dropout of nothing",
        lambda x: torch.native_dropout(x, 0.0, True),
        [normal(*_SHAPE)],
        [normal(43, 47, 53)],
        exact=True,
    )
    yield Case(
        "complex moves",
        lambda x: torch.cat((x.flip(0), x.roll(1, 1).conj())),
        [complexes(9, 67)],
        exact=True,
        types=LONG_ONLY,
    )


def _indexed(torch: Any) -> Iterator[Case]:
    rows, picks = integers(0, 33, 33), integers(0, 33, 33, 17)
    data, many = normal(33, 17), normal(4099, 19)
    wide_rows, wide_picks = integers(0, 4099, 5003), integers(0, 4099, 4099, 19)
    sums: dict[str, Any] = {
        "index_add": lambda x, i, y: x.index_add(0, i, y, alpha=0.5),
        "index_copy": None,
        "index_put accumulate": lambda x, i, y: x.index_put((i,), y, accumulate=True),
    }
    for name, call in sums.items():
        if call is not None:
            yield Case(
                name, call, [data, rows, data], [many, wide_rows, normal(5003, 19)], grad=True, slack=8
            )
    yield Case(
        "index_put of elements",
        lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
        [data, rows, integers(0, 17, 33), normal(33)],
        slack=8,
        grad=True,
        large=[many, integers(0, 4099, 70001), integers(0, 19, 70001), normal(70001)],
    )
    yield Case(
        "index_copy",
        lambda x, y: x.index_copy(0, torch.arange(32, -1, -1, device=x.device), y),
        [data, data],
        exact=True,
        grad=True,
    )
    yield Case(
        "index_fill",
        lambda x, i: x.index_fill(0, i, 2.5),
        [data, integers(0, 33, 9)],
        exact=True,
        grad=True,
        large=[many, integers(0, 4099, 99)],
    )
    yield Case(
        "index_select", lambda x, i: x.index_select(0, i), [data, rows], [many, wide_rows], grad=True, slack=8
    )
    yield Case(
        "index",
        lambda x, i: (x[i], x[:, i[:5] % 17], x[i[:9], i[9:18] % 17]),
        [data, rows],
        [many, wide_rows],
        grad=True,
        slack=8,
    )
    yield Case("gather", lambda x, i: x.gather(0, i), [data, picks], [many, wide_picks], grad=True, slack=8)
    yield Case(
        "take",
        torch.take,
        [data, integers(0, 500, 9, 7)],
        [many, integers(0, 70000, 70001)],
        grad=True,
        slack=8,
    )
    yield Case(
        "take_along_dim", lambda x, i: torch.take_along_dim(x, i, 0), [data, picks], grad=True, slack=8
    )
    yield Case(
        "scatter_add",
        lambda x, i, y: x.scatter_add(0, i, y),
        [data, picks, data],
        [many, wide_picks, many],
        grad=True,
        slack=8,
    )
    yield Case(
        "scatter",
        lambda x, y: x.scatter(0, torch.arange(32, -1, -1, device=x.device)[:, None].expand(33, 17), y),
        [data, data],
        exact=True,
        grad=True,
    )
    yield Case(
        "scatter value",
        lambda x, i: x.scatter(0, i, 2.5),
        [data, picks],
        [many, wide_picks],
        exact=True,
    )
    for how in ("sum", "mean", "amax", "amin", "prod"):
        yield Case(
            f"scatter_reduce {how}",
            lambda x, i, y, h=how: x.scatter_reduce(0, i, y, h, include_self=True),
            [uniform(0.5, 1.5, 33, 17), picks, uniform(0.5, 1.5, 33, 17)],
            slack=16,
            nan=how in ("sum", "mean", "prod"),
            large=[uniform(0.5, 1.5, 4099, 19), wide_picks, uniform(0.5, 1.5, 4099, 19)],
        )
    yield Case(
        "masked_scatter",
        lambda x, m, y: x.masked_scatter(m, y),
        [data, booleans(33, 17), data],
        [many, booleans(4099, 19), many],
        exact=True,
        grad=True,
    )
    yield Case(
        "put",
        lambda x, i, y: x.put(i, y, accumulate=True),
        [data, integers(0, 500, 99), normal(99)],
        slack=8,
        types=LONG_ONLY,
    )


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _moves(torch)
    yield from _indexed(torch)
