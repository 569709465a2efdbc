"""What moves or indexes elements, what changes tensors in place, and foreach operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import EXACT, GRAD, LONG, LONG_ONLY, NO_NAN, SHORT_TOO, SINGLE, Case, named, rows, slack


def moves(torch: Any) -> Iterator[Case]:
    """Return what moves, makes and indexes elements."""
    f, shape, large = torch.nn.functional, "n7x5x33", "n43x47x53"
    # fmt: off
    plain: dict[str, Any] = {
        "permute": lambda x: x.permute(2, 0, 1).contiguous(),
        "flip": lambda x: x.flip(0, 2),
        "roll": lambda x: x.roll((3, 5), (1, 2)),
        "cat": lambda x: torch.cat((x, x.flip(0), x), 1),
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
        "split": lambda x: [part * 1 for part in x.split(11, 2)],
        "expand": lambda x: x[:, :1].expand(-1, 4, -1) * 1,
        "as_strided": lambda x: x.contiguous().as_strided((4, 6), (9, 2), 3) * 1,
        "constant_pad_nd": lambda x: f.pad(x, (1, 2, 3, 0), value=2.5),
        "squeeze": lambda x: x[:1].squeeze(0) * 1,
        "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :, :9] * 2, 2, 3, 21, 2),
        "select_scatter": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, 2),
        "masked_fill": lambda x: x.masked_fill(x > 0.5, -1.0),
        "masked_select": lambda x: x[x > 0.5],
        "fill": lambda x: torch.full_like(x, 2.5) + x * 0,
        "copy": lambda x: torch.empty_like(x).copy_(x),
    }
    for name, call in plain.items():
        grad = name not in ("masked_select", "fill", "zeros", "copy")
        yield Case(name, call, shape, large, exact=True, grad=grad)
    sizes = (("n2x3x9", "n2x3x11003"), ("n2x3x9x8", "n2x3x110x103"), ("n2x3x9x8x7", "n2x2x31x29x37"))
    for mode in ("reflect", "replicate", "circular"):
        for rank, inputs in enumerate(sizes, 1):
            yield Case(f"pad {mode} {rank}d", named(f, "pad", (2, 1) * rank, mode=mode), *inputs, grad=True)
    zero = "w0:1@1"
    yield from rows(
        torch,
        ("arange", lambda x: [torch.arange(n, 99999, 7, device=x.device) + x for n in (3, 5)], "i0:1@1"),
        ("arange of numbers",
         lambda x: [torch.arange(n, n + 60, device=x.device, dtype=x.dtype) + x for n in (3, 5)], zero,
         EXACT),
        ("arange of other steps",
         lambda x: [torch.arange(*bounds, device=x.device) + x for bounds in
                    ((10, -11, -3), (5, 5, 1), (-(2**40), -(2**40) + 9, 4))], "i0:1@1"),
        ("arange of fractions",
         lambda x: [torch.arange(*bounds, device=x.device, dtype=x.dtype) + x for bounds in
                    ((0.0, 1.0, 0.1), (-3.5, 1000.0, 0.37), (1.0, -1.0, -0.125))], zero, LONG, slack(4)),
        ("cat of other types",
         lambda x: [torch.cat((x.to(kind), x[:, :0].to(kind), x.flip(0).to(kind)), 1) for kind in
                    (torch.int64, torch.int32, torch.int8, torch.bool)], "i-99:99@3x67"),
        ("cat of many parts", lambda x: torch.cat(x.split(1, 1), 1), "n3x130", EXACT),
        ("repeat_interleave by counts", lambda x, i: x.repeat_interleave(i, 1), "n3x67 i0:4@67", EXACT),
        ("full", lambda x: torch.full((300, 290), 2.5, device=x.device) + x, zero, EXACT, SINGLE),
        ("scalar_tensor", lambda x: torch.scalar_tensor(2.5, device=x.device) + x, zero, EXACT, SINGLE),
        ("nonzero", "", "b9x67", "b401x251"),
        ("nonzero of as many", lambda x: (x > 0).nonzero(), "d8x32", EXACT, NO_NAN),
        ("nonzero of numbers", "nonzero", "w0:2@9x67", EXACT),
        ("native_dropout of nothing", named(torch, "native_dropout", 0.0, True), shape, large, EXACT),
        ("complex moves", lambda x: torch.cat((x.flip(0), x.roll(1, 1).conj())), "c9x67", EXACT, LONG),
    )
    for how in ("sum", "mean", "amax", "amin", "prod"):
        scatter = lambda x, i, y, h=how: x.scatter_reduce(0, i, y, h, include_self=True)  # noqa: E731
        inputs = "u.5:1.5@33x17 i0:33@33x17 u.5:1.5@33x17", "u.5:1.5@4099x19 i0:4099@4099x19 u.5:1.5@4099x19"
        yield Case(f"scatter_reduce {how}", scatter, *inputs, slack=16, nan=how in ("sum", "mean", "prod"))
    data, index, picks = "n33x17", "i0:33@33", "i0:33@33x17"
    #: In an order that depends on threads, unless it has to be repeatable.
    adding = {
        "index_add": lambda x, i, y: x.index_add(0, i, y),
        "index_put": lambda x, i, y: x.index_put((i,), y, accumulate=True),
        "scatter_add": lambda x, i, y: x.scatter_add(0, i[:, None].expand_as(y), y),
        "looking up": lambda x, i, y: torch.ops.aten.embedding_dense_backward(y, i, len(x), -1, False) + x,
    }
    many, indices, many_picks = "n4099x19", "i0:4099@5003", "i0:4099@4099x19"
    yield from rows(
        torch,
        ("index_add", lambda x, i, y: x.index_add(0, i, y, alpha=0.5), f"{data} {index} {data}",
         f"{many} {indices} n5003x19", GRAD, slack(8)),
        ("index_put accumulate", lambda x, i, y: x.index_put((i,), y, accumulate=True),
         f"{data} {index} {data}",
         f"{many} {indices} n5003x19", GRAD, slack(8)),
        ("index_put of elements", lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
         f"{data} {index} i0:17@33 n33", f"{many} i0:4099@70001 i0:19@70001 n70001", GRAD, slack(8)),
        *((f"{name} of many", call, "n50x33 i0:50@1000 n1000x33", {"ways": ("deterministic",)})
          for name, call in adding.items()),
        ("index_add of integers",
         lambda x, i, y: [x.to(kind).index_add(0, i, y.to(kind)) for kind in (torch.int64, torch.int32)],
         "i-9:9@13 i0:13@20000 i-9:9@20000"),
        ("index_copy", lambda x, y: x.index_copy(0, torch.arange(32, -1, -1, device=x.device), y),
         f"{data}*2",
         EXACT, GRAD),
        ("index_select", lambda x, i: x.index_select(0, i), f"{data} {index}", f"{many} {indices}", GRAD,
         slack(8)),
        ("index", lambda x, i: (x[i], x[:, i[:5] % 17], x[i[:9], i[9:18] % 17]), f"{data} {index}",
         f"{many} {indices}", GRAD, slack(8)),
        ("gather", lambda x, i: x.gather(0, i), f"{data} {picks}", f"{many} {many_picks}", GRAD, slack(8)),
        ("scatter_add", lambda x, i, y: x.scatter_add(0, i, y), f"{data} {picks} {data}",
         f"{many} {many_picks} {many}", GRAD, slack(8)),
        ("scatter", lambda x,
         y: x.scatter(0, torch.arange(32, -1, -1, device=x.device)[:, None].expand(33, 17), y),
         f"{data}*2", EXACT, GRAD),
        ("scatter value", lambda x, i: x.scatter(0, i, 2.5), f"{data} {picks}", f"{many} {many_picks}",
         EXACT),
        ("masked_scatter", lambda x, m, y: x.masked_scatter(m, y), f"{data} b33x17 {data}",
         f"{many} b4099x19 {many}", EXACT, GRAD),
    )
    # fmt: on


#: Methods with ``_``: of a second tensor, with what follows it, and of one alone.
_IN_PLACE: dict[str, tuple[Any, ...]] = {
    "add_": (), "sub_": (), "mul_": (), "div_": (), "pow_": (), "copysign_": (), "copy_": (), "atan2_": (),
    "lerp_": (0.3,), "fmod_": (), "remainder_": (), "hypot_": (),
}  # fmt: skip
_ALONE = """exp_ log_ sqrt_ rsqrt_ tanh_ sigmoid_ neg_ abs_ relu_ floor_ ceil_ round_ reciprocal_ erf_ sin_
    cos_ trunc_ square_ zero_ log1p_ expm1_ atan_"""
_OPTIMISERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}), ("SGD", {"lr": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True}), ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.05}), ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
    ("Adadelta", {"lr": 0.5}), ("Adamax", {"lr": 0.01}), ("NAdam", {"lr": 0.01}), ("RAdam", {"lr": 0.01}),
    ("ASGD", {"lr": 0.05}), ("Rprop", {"lr": 0.01}),
)  # fmt: skip
#: Form of an optimiser -> its options.
_FORMS: dict[str, dict[str, Any]] = {
    "foreach": {"foreach": True}, "single": {"foreach": False}, "fused": {"fused": True},
    "capturable": {"capturable": True, "foreach": False},
    "capturable foreach": {"capturable": True, "foreach": True},
}  # fmt: skip
#: In short types, SGD of the CPU skips whole vectors of elements: https://github.com/pytorch/pytorch/issues/191763
_FUSED = {"SGD": ("float32",), "Adam": SHORT_TOO, "AdamW": SHORT_TOO}


def updates(torch: Any) -> Iterator[Case]:
    """Return what writes into its argument, and optimisers."""
    one, many = "u.3:3@7x33", "u.3:3@301x251"
    two, large = f"{one}*2", f"{many}*2"
    for name, more in _IN_PLACE.items():
        call = lambda a, b, n=name, m=more: getattr(a.clone(), n)(b, *m)  # noqa: E731
        yield Case(name, call, two, large, slack=8, nan=name != "copysign_")
    for name in _ALONE.split():
        alone = lambda a, n=name: getattr(a.clone(), n)()  # noqa: E731
        yield Case(name, alone, one, many, slack=8, nan=name != "zero_")
    for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "atan2", "matmul"):
        out = lambda a, b, n=name: getattr(torch, n)(a, b, out=torch.full_like(a, 9))  # noqa: E731
        yield Case(f"{name} out", out, "n33x33*2" if name == "matmul" else two, slack=8)
    # fmt: off
    yield from rows(
        torch,
        ("strided out", lambda a, b: torch.add(a, b, out=a.new_zeros(33, 14).t()[::2]), two),
        ("addcmul_", lambda a, b: a.clone().addcmul_(a, b, value=0.5), two, large, slack(4)),
        ("addcdiv_", lambda a, b: a.clone().addcdiv_(a, b, value=0.5), two, large, slack(4)),
        ("add_ with a scalar", lambda a: a.clone().add_(1.5).mul_(2).div_(3).sub_(0.5), one, many, slack(4)),
        ("clamp_", lambda a: a.clone().clamp_(0.5, 2), one, many, EXACT),
        ("fill_", lambda a: a.clone().fill_(2.5), one, many, EXACT, NO_NAN),
        ("masked_fill_", lambda a: a.clone().masked_fill_(a > 1, 2.5), one, many, EXACT, NO_NAN),
        ("addmm_", lambda a, b: a.clone().addmm_(a, b, beta=0.5), "n33x33*2", "n270x270*2", slack(2)),
        ("cumsum_", lambda a: a.clone().cumsum_(1), one, many, slack(4)),
        ("index_add_", lambda a, b: a.clone().index_add_(0, torch.arange(len(a), device=a.device) // 2, b),
         two,
         large, slack(4)),
    )
    # fmt: on
    shapes, sizes = "n7x33 n5 u.5:2@7x33 u.5:2@5", "n301x251 n70001 u.5:2@301x251 u.5:2@70001"
    for number, (name, options) in enumerate(_OPTIMISERS):
        for form in list(_FORMS)[: 3 if name == "SGD" else 5 if name in _FUSED else 2]:
            types = _FUSED[name] if form == "fused" else ("float32",)
            made, defined = (_stepped(torch, name, {**options, **_FORMS[one]}) for one in (form, "single"))
            yield Case(f"{form} {name} {number}", made, shapes, sizes, types, slack=64, reference=defined)


def _stepped(torch: Any, name: str, options: dict[str, Any]) -> Any:
    """Return a call that takes parameters, then as many gradients, and makes three steps."""

    def call(*given: Any) -> list[Any]:
        half = len(given) // 2
        with torch.enable_grad():
            own = [one.detach().clone().requires_grad_() for one in given[:half]]
        if options.get("capturable") and own[0].device.type == "cpu":
            raise NotImplementedError("capturable is for supported devices, not for the CPU")
        optimiser = getattr(torch.optim, name)(own, **options)
        for step in range(3):
            for one, gradient in zip(own, given[half:]):
                one.grad = gradient * (1 + step)
            optimiser.step()
        return [one.detach() for one in own]

    return call


_LISTS = """abs neg exp log sqrt rsqrt reciprocal sigmoid tanh sin cos floor ceil round trunc erf erfc expm1
    log1p log2 log10 lgamma sinh cosh tan atan frac sign"""


def foreach(torch: Any) -> Iterator[Case]:
    """Return operators on one list of tensors and on several."""
    small, many = "u.6:2@7x33 u.6:2@5 u.6:2@3x4x9", "u.6:2@301x251 u.6:2@70001 u.6:2@3"

    def of(name: str, *more: Any) -> Any:
        """``more`` are further arguments, or functions of the list that make them."""

        def call(*given: Any) -> Any:
            lists = [one(list(given)) if callable(one) else one for one in more]
            if not name.endswith("_"):
                return getattr(torch, f"_foreach_{name}")(list(given), *lists)
            own = [one.clone() for one in given]
            getattr(torch, f"_foreach_{name}")(own, *lists)
            return own

        return call

    def same(given: Any) -> Any:
        return given

    def twice(given: Any) -> Any:
        return [one * 2 for one in given]

    for name in _LISTS.split():
        factor, types = (64, LONG_ONLY) if name == "lgamma" else (8, ("float32", "bfloat16", "float16"))
        yield Case(f"foreach {name}", of(name), small, many, types, slack=factor, nan=name != "sign")
        if name != "sign":
            yield Case(f"foreach {name}_", of(f"{name}_"), small, types=("float32",), slack=factor)
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow"):
        more = lambda given: [one + 0.5 for one in given]  # noqa: E731
        for how, argument in (("", more), (" scalar", 1.25), (" scalars", [1.25, 0.75, 2.0])):
            yield Case(f"foreach {name}{how}", of(name, argument), small, many, slack=8)
        yield Case(f"foreach {name}_", of(f"{name}_", same), small, many, slack=8)
    # fmt: off
    yield from rows(
        torch,
        ("foreach lerp", of("lerp", twice, 0.3), small, many, slack(8)),
        ("foreach lerp_", of("lerp_", twice, 0.3), small, many, slack(8)),
        ("foreach addcmul", of("addcmul", same, same, 0.5), small, many, slack(8)),
        ("foreach addcmul_", of("addcmul_", same, same, 0.5), small, many, slack(8)),
        ("foreach addcdiv", of("addcdiv", same, same, [0.5, 1, 2]), small, many, slack(8)),
        ("foreach addcdiv_", of("addcdiv_", same, same, 0.5), small, many, slack(8)),
        # With each list times its norm: 1 % of one number alone is not seen in short types.
        ("foreach norm", lambda *g: [a * b for a, b in zip(g, of("norm", 2)(*g))], small, slack(4)),
        ("foreach norm 1", of("norm", 1), small, many, slack(8)),
        ("foreach max", of("max"), small, many, EXACT),
        ("foreach zero_", of("zero_"), small, many, EXACT, NO_NAN),
        ("foreach copy_", lambda *g: of("copy_", list(g))(*(one * 0 for one in g)), small, many, EXACT),
    )
    # fmt: on
