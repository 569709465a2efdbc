"""Each backend of attention that the device has, and FlexAttention, against the definition."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any

from .cases import Case, booleans, normal

_BACKENDS = ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE")
#: Short types first: some backends have no others.
_TYPES = ("bfloat16", "float16", "float32")
_USUAL: dict[str, Any] = {"types": _TYPES, "grad": True, "strided": False, "nan": False, "slack": 8.0}
_HEAD = 32
#: Warnings but for those that say that an operator runs on the CPU.
_NOT_OF_PLACES = "(?!.*falling back to run)"


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
            scores = scores.masked_fill(~_opened(one), float("-inf"))
        return scores.softmax(-1) @ v

    return call


def _opened(mask: Any) -> Any:
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
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, *(_opened(one) for one in mask), is_causal=causal
            )

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


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    whole = [normal(2, 4, 70, _HEAD)] * 3
    grouped = [normal(2, 4, 70, _HEAD), *[normal(2, 2, 70, _HEAD)] * 2]
    cross = [normal(2, 4, 9, _HEAD), *[normal(2, 4, 150, _HEAD)] * 2]
    masked = [*whole, booleans(2, 1, 70, 70)]
    uses = (
        ("", whole, False),
        (" causal", grouped, True),
        (" cross", cross, False),
        (" masked", masked, False),
    )
    for backend in _BACKENDS:
        for what, inputs, causal in uses:
            yield Case(
                f"{backend}{what}",
                _by(torch, backend, causal=causal),
                inputs,
                reference=_defined(torch, causal=causal),
                **_USUAL,
            )
    aligned = [normal(1, 4, 256, _HEAD)] * 3
    shared = [normal(1, 4, 256, _HEAD), *[normal(1, 2, 256, _HEAD)] * 2]
    for what, inputs, grad in (
        ("", aligned, False),
        (" grouped", shared, False),
        (" with gradients", aligned, True),
    ):
        yield Case(
            f"FlexAttention{what}",
            _flexible(torch, grouped=inputs is shared),
            inputs,
            reference=_defined(torch, causal=True, bias=_nearer),
            **{**_USUAL, "types": ("float32", "bfloat16"), "grad": grad},
        )
