"""Kernels of torch's operators on a device, and how they are replaced through the dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

#: Operators of networks that are not in the core set, where the device has a kernel for them.
FUSED = (
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention", "_fused_adam_",
    "_fused_adamw_", "_fused_sgd_", "_foreach_add_", "_foreach_mul_", "_foreach_addcmul_",
    "_foreach_addcdiv_", "_foreach_lerp_", "_foreach_sqrt", "_foreach_norm", "mkldnn_rnn_layer",
    "_cudnn_rnn", "_thnn_fused_lstm_cell", "_fused_rms_norm", "nll_loss_forward", "nll_loss_backward",
    "nll_loss2d_forward", "_log_softmax_backward_data", "_softmax_backward_data",
    "native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward",
    "convolution_backward", "mkldnn_convolution", "cudnn_convolution", "mse_loss_backward",
    "huber_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_backward", "_fft_c2c",
    "_fft_r2c", "_fft_c2r", "linalg_qr", "linalg_lu_factor_ex", "linalg_inv_ex", "_linalg_solve_ex",
    "_linalg_svd", "_linalg_eigh", "linalg_cholesky_ex", "linalg_solve_triangular", "cumprod",
    "_logcumsumexp", "logcumsumexp", "baddbmm", "_embedding_bag", "embedding_dense_backward",
    "max_pool2d_with_indices_backward", "avg_pool2d_backward", "upsample_bicubic2d",
    "upsample_nearest2d_backward", "upsample_bilinear2d_backward", "lerp", "kthvalue", "index_add",
    "unique_dim", "_unique2", "searchsorted", "bincount",
)  # fmt: skip
_NO_CONTENT = ("empty", "empty_strided", "empty_like", "new_empty", "resize", "_local_scalar_dense", "equal")


def overloads(torch: Any, name: str, key: str) -> Iterator[Any]:
    """Return the overloads of an operator, its in-place form included, that the device has a kernel for."""
    for form in dict.fromkeys((name, f"{name}_")):
        packet = getattr(torch.ops.aten, form, None)
        for one in packet.overloads() if packet is not None else ():
            overload = getattr(packet, one)
            try:
                if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key):
                    yield overload
            except RuntimeError:  # of TorchScript alone
                continue


def operators(torch: Any, key: str) -> tuple[list[str], dict[str, str]]:
    """Return the operators to break, and those of the core set that are left out, with the reason."""
    names = {full.partition("::")[2].partition(".")[0] for full in torch._C._dispatch_get_all_op_names()
             if full.startswith("aten::")}  # fmt: skip
    core = {name for name in names if not name.endswith("_") and _is_core(torch, name)}
    left, kept = {}, []
    for name in sorted(core | set(FUSED)):
        found = list(overloads(torch, name, key))
        if not found:
            reason = "no kernel of its own on this device: it consists of others"
        elif name.startswith(_NO_CONTENT):
            reason = "its result has no content"
        elif all(is_view(one) for one in found):
            reason = "a view: it computes nothing"
        else:
            kept.append(name)
            continue
        left[name] = reason
    return kept, left


def _is_core(torch: Any, name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.core in getattr(packet, one).tags for one in packet.overloads()
    )


def is_view(overload: Any) -> bool:
    """Return whether an operator returns its argument's memory without writing to it."""
    aliases = [result.alias_info for result in overload._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def tensors(torch: Any, given: Iterable[Any]) -> list[Any]:
    """Return the tensors in arguments, also those in lists."""
    found = []
    for one in given:
        if isinstance(one, torch.Tensor):
            found.append(one)
        elif isinstance(one, (tuple, list)):
            found += tensors(torch, one)
    return found


def changed_all(torch: Any, given: Any, change: Any) -> Any:
    """Return arguments with a function's result in the place of each tensor."""
    if isinstance(given, (tuple, list)):
        return type(given)(changed_all(torch, one, change) for one in given)
    return change(given) if isinstance(given, torch.Tensor) else given


class Replaced:
    """Replaces kernels while it is entered: ``after`` gets what the device's return, and may change it."""

    def __init__(self, torch: Any, names: Iterable[str], key: str) -> None:
        self.torch, self.key = torch, key
        self._names = list(names)
        self._inside = False
        self._running: set[str] = set()

    def __enter__(self) -> Any:
        torch = self.torch
        self._library = torch.library.Library("aten", "IMPL")
        done = set()
        for name in self._names:
            for overload in overloads(torch, name, self.key):
                if overload.name() in done or is_view(overload):
                    continue
                done.add(overload.name())
                kernel = torch.library.get_kernel(overload, self.key)
                self._library.impl(
                    overload,
                    self._replacement(name, kernel, overload),
                    self.key,
                    with_keyset=True,
                    allow_override=True,
                )
        return self

    def __exit__(self, *_: object) -> None:
        self._library._destroy()

    def after(self, name: str, result: Any, given: list[Any], again: Any) -> Any:
        """Return what the operator returns.

        ``given`` are the tensors among its arguments. ``again`` calls the device's kernel once more, with
        tensors that a function has changed.
        """
        raise NotImplementedError

    def _replacement(self, name: str, kernel: Any, overload: Any) -> Any:
        arguments = overload._schema.arguments
        like = [str(one.type) == "Tensor" for one in arguments]
        out = {one.name for one in arguments if one.is_out}

        def replaced(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            args = tuple(
                self._tensor(one, args) if wanted else one for one, wanted in zip(args, like, strict=False)
            )
            if self._inside or name in self._running:
                return kernel.call_boxed(keyset, *args, **kwargs)
            # An overload that calls another one of the same operator is one call.
            self._running.add(name)
            try:
                result = kernel.call_boxed(keyset, *args, **kwargs)
            finally:
                self._running.discard(name)
            self._inside = True
            try:
                given = tensors(self.torch, (args, *kwargs.values()))

                def again(change: Any) -> Any:
                    def empty(one: Any) -> Any:
                        return change(one).new_empty(0)

                    other = changed_all(self.torch, args, change)
                    more = {key: changed_all(self.torch, one, empty if key in out else change)
                            for key, one in kwargs.items()}  # fmt: skip
                    found = kernel.call_boxed(keyset, *other, **more)
                    return other[0] if found is None else found

                # Some in-place operators return nothing: their first argument has the result.
                made = self.after(name, args[0] if result is None else result, given, again)
                return None if result is None else made
            finally:
                self._inside = False

        return replaced

    def _tensor(self, one: Any, args: Any) -> Any:
        """Return a tensor in the place of a number: Python's kernels get such operands as numbers."""
        if not isinstance(one, (int, float, complex)):
            return one
        other = next((tensor for tensor in args if isinstance(tensor, self.torch.Tensor)), None)
        if other is None:
            return self.torch.tensor(one)
        if not other.dim() and (other.is_floating_point() or other.is_complex()):
            return self.torch.tensor(one, dtype=other.dtype)
        if isinstance(one, complex):
            return self.torch.tensor(one, dtype=self.torch.complex128)
        exact = isinstance(one, float) and (other.is_floating_point() or other.is_complex())
        return self.torch.tensor(one, dtype=self.torch.float64 if exact else None)
