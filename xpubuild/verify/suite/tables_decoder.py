"""A decoder transformer: RMSNorm, rotary positions, grouped-query attention, SwiGLU and a tied embedding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import Case, rows
from .ways import USUAL

_LAYERS, _HEADS, _GROUPS, _HEAD = 2, 4, 2, 32
_WIDTH, _INNER, _WORDS = _HEADS * _HEAD, 192, 211
_BATCH, _LENGTH = 3, 37
_PROMPT, _NEW = 5, 12
#: Where the two best words are further apart than this, in float64, no device may choose another one than the
#: reference: in float32, logits are off by less than a thousandth of it.
_TIE = 1e-2


def _weights() -> str:
    """Return the embedding, the last norm, and those of each layer: two norms and seven matrices."""

    def matrix(out: int, into: int) -> str:
        bound = (3 / into) ** 0.5
        return f"u{-bound}:{bound}@{out}x{into}"

    norm, kept, square = f"u.5:1.5@{_WIDTH}", matrix(_GROUPS * _HEAD, _WIDTH), matrix(_WIDTH, _WIDTH)
    wide, back = matrix(_INNER, _WIDTH), matrix(_WIDTH, _INNER)
    layer = f"{norm} {square} {kept} {kept} {square} {norm} {wide} {wide} {back}"
    return " ".join([f"u-.3:.3@{_WORDS}x{_WIDTH} {norm}", *([layer] * _LAYERS)])


class _Decoder:
    """The network on given weights; ``defined`` computes attention, norm and loss by their definitions."""

    def __init__(self, torch: Any, weights: tuple[Any, ...], *, defined: bool) -> None:
        self.torch, self.f, self.defined = torch, torch.nn.functional, defined
        self.embedding, self.last, *rest = weights
        self.layers = [rest[9 * number : 9 * number + 9] for number in range(_LAYERS)]

    def norm(self, x: Any, weight: Any) -> Any:
        if self.defined:
            return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight
        return self.f.rms_norm(x, (_WIDTH,), weight, 1e-5)

    def rotated(self, x: Any, first: int) -> Any:
        """Rotate pairs by angles that each type holds exactly, as networks do in float32 at least."""
        torch = self.torch
        wide = x if x.dtype == torch.float64 else x.float()
        speeds = 0.5 ** torch.arange(_HEAD // 2, device=x.device).to(wide.dtype)
        places = torch.arange(first, first + x.shape[2], device=x.device).to(wide.dtype)
        angle = places[:, None] * speeds
        left, right = wide.chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((left * cos - right * sin, left * sin + right * cos), -1).to(x.dtype)

    def attend(self, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
        if not self.defined and _knows_groups(self.torch):
            return self.f.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        k, v = (part.repeat_interleave(_HEADS // _GROUPS, 1) for part in (k, v))
        if not self.defined:
            return self.f.scaled_dot_product_attention(q, k, v, is_causal=causal)
        scores = q @ k.mT / _HEAD**0.5
        if causal:
            later = self.torch.ones(scores.shape[-2:], dtype=self.torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return scores.softmax(-1) @ v

    def hidden(self, words: Any, cache: list[tuple[Any, Any]] | None = None, first: int = 0) -> Any:
        """Return what the last layer gives; a cache holds the keys and values of ``first`` words before."""
        x = self.embedding[words]
        for number, (before, q, k, v, out, after, gate, up, down) in enumerate(self.layers):
            h = self.norm(x, before)
            split = [self.f.linear(h, one).unflatten(-1, (-1, _HEAD)).transpose(1, 2) for one in (q, k, v)]
            query, key, value = self.rotated(split[0], first), self.rotated(split[1], first), split[2]
            until = first + words.shape[1]
            if cache is not None:
                for kept, new in zip(cache[number], (key, value)):
                    kept[:, :, first:until] = new
                key, value = (kept[:, :, :until] for kept in cache[number])
            seen = self.attend(query, key, value, causal=words.shape[1] > 1)
            x = x + self.f.linear(seen.transpose(1, 2).flatten(2), out)
            h = self.norm(x, after)
            x = x + self.f.linear(self.f.silu(self.f.linear(h, gate)) * self.f.linear(h, up), down)
        return self.norm(x, self.last)

    def logits(self, words: Any, cache: list[tuple[Any, Any]] | None = None, first: int = 0) -> Any:
        found = self.f.linear(self.hidden(words, cache, first), self.embedding)
        return found if found.dtype == self.torch.float64 else found.float()

    def empty_cache(self, batch: int, length: int) -> list[tuple[Any, Any]]:
        shape = (batch, _GROUPS, length, _HEAD)
        return [(self.last.new_zeros(shape), self.last.new_zeros(shape)) for _ in self.layers]


def _knows_groups(torch: Any) -> bool:
    """Return whether attention takes grouped queries (from torch 2.5 on)."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 5)


def _loss(torch: Any, *, defined: bool) -> Any:
    """Return a call that gives the mean loss and that of each word; some words are ignored."""

    def call(words: Any, ignored: Any, *weights: Any) -> Any:
        logits = _Decoder(torch, weights, defined=defined).logits(words[:, :-1]).flatten(0, 1)
        targets = words[:, 1:].flatten()
        if defined:
            one = torch.logsumexp(logits, -1) - logits.gather(1, targets[:, None])[:, 0]
            one = one * ~ignored.flatten()
            return one.sum() / (~ignored).sum(), one
        targets = targets.masked_fill(ignored.flatten(), -100)
        loss = torch.nn.functional.cross_entropy
        return loss(logits, targets), loss(logits, targets, reduction="none")

    return call


def _trained(torch: Any, *, defined: bool) -> Any:
    """Return a call that gives the loss before each of three steps and after the last."""
    loss = _loss(torch, defined=defined)

    def call(words: Any, ignored: Any, *weights: Any) -> Any:
        with torch.enable_grad():
            own = [one.detach().clone().requires_grad_() for one in weights]
            optimiser = torch.optim.SGD(own, lr=0.05, momentum=0.9)
            losses = []
            for _ in range(4):
                optimiser.zero_grad()
                losses.append(loss(words, ignored, *own)[0])
                losses[-1].backward()
                optimiser.step()
        return torch.stack([one.detach() for one in losses])

    return call


def _word_by_word(torch: Any) -> Any:
    def call(words: Any, *weights: Any) -> Any:
        decoder = _Decoder(torch, weights, defined=False)
        cache, places = decoder.empty_cache(*words.shape), range(words.shape[1])
        return torch.cat([decoder.logits(words[:, at : at + 1], cache, at) for at in places], 1)

    return call


def _generated(torch: Any) -> Any:
    """Return a call that continues a text by the most likely word, with a cache."""

    def call(words: Any, *weights: Any) -> Any:
        decoder = _Decoder(torch, weights, defined=False)
        cache, text = decoder.empty_cache(len(words), words.shape[1] + _NEW), words
        first = 0
        for _ in range(_NEW):
            best = decoder.logits(text[:, first:], cache, first)[:, -1].argmax(-1, keepdim=True)
            first, text = text.shape[1], torch.cat((text, best), 1)
        return text

    return call


def _continued(torch: Any) -> Any:
    """Return the reference of a generation: without a cache, and not where two words are as likely."""

    def call(words: Any, *weights: Any) -> Any:
        decoder, text = _Decoder(torch, weights, defined=True), words
        for _ in range(_NEW):
            two = decoder.logits(text)[:, -1].topk(2)
            if float((two.values[:, 0] - two.values[:, 1]).min()) < _TIE:
                raise ValueError("two words are as likely: the text to continue has to be another one")
            text = torch.cat((text, two.indices[:, :1]), 1)
        return text

    return call


def decoder(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    weights, short = _weights(), f"i0:{_WORDS}@{_BATCH}x13 {_weights()}"
    texts = f"i0:{_WORDS}@{_BATCH}x{_LENGTH} b{_BATCH}x{_LENGTH - 1} {weights}"
    loss, defined_loss = (_loss(torch, defined=defined) for defined in (False, True))
    trained, defined_trained = (_trained(torch, defined=defined) for defined in (False, True))

    def prefilled(words: Any, *given: Any) -> Any:
        return _Decoder(torch, given, defined=False).logits(words)

    def whole(words: Any, *given: Any) -> Any:
        return _Decoder(torch, given, defined=True).logits(words)

    yield from rows(
        torch,
        ("loss", loss, texts,
         {"grad": True, "reference": defined_loss, "ways": (*USUAL, "compiled", "exported")}),
        ("losses of three steps", trained, texts, {"reference": defined_trained}),
        ("logits of a prefill", prefilled, short, {"reference": whole}),
        ("logits word by word with a cache", _word_by_word(torch), short, {"reference": whole}),
        ("greedy generation", _generated(torch), f"i0:{_WORDS}@2x{_PROMPT} {weights}",
         {"reference": _continued(torch), "types": ("float32",)}),
        types=("float32", "bfloat16"), strided=False, nan=False, slack=16.0,
    )  # fmt: skip
