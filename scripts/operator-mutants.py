#!/usr/bin/env python3
"""Break one operator of a good torch at a time and see which cases of the operator tables notice.

Each mutant replaces the kernels of one operator (all overloads, in-place and out= too) for the device through
the dispatcher, so that the result is slightly wrong. A recorded map says which cases call the operator; they
run until the first one fails. References come from the unbroken torch. With --ops the pairs of the suite
ops that call the operator run for what is left. Needs torch 2.10 or newer in this interpreter, and for --ops
numpy and expecttest. Results are appended to OUT as they come: the same command goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutation.called import called

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "xpubuild" / "verify" / "suite" / "run.py"
TABLES = (
    "pointwise", "truth", "reduce", "order", "moves", "linear", "algebra", "norms", "losses", "convolve",
    "layers", "updates", "foreach",
)  # fmt: skip
WHOLE = ("operators.random", "operators.deterministic", "operators.grad_scaler")
MUTATIONS = ("percent", "element", "block", "batch", "stride", "large", "half", "stale", "nan")
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


#: A mutant in which a case hangs; verify would time out.
_HANGS_S = 300
#: What became of a mutant.
RESULTS = ("caught", "survived", "never met", "never called", "does not apply")


def load_suite() -> str:
    """Import the suite under its own name and return that."""
    spec = importlib.util.spec_from_file_location("run_of_suite", RUN)
    if spec is None or spec.loader is None:
        raise ImportError(str(RUN))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    run._load_suite()
    return str(run._PACKAGE)


class Bench:
    """The cases of the tables, with references of the unbroken torch, and the map from operators to cases."""

    def __init__(
        self, device: str, cache: Path, tables: tuple[str, ...] = TABLES, *, ops: bool = False
    ) -> None:
        package = load_suite()
        self.torch: Any = importlib.import_module("torch")
        part = {name: importlib.import_module(f"{package}.{name}") for name in
                ("operators", "references", "context", "backends", "registry", "settling")}  # fmt: skip
        part["settling"].settle(self.torch)
        self.operators, self.references, self.checks = (
            part["operators"],
            part["references"],
            part["registry"].discover(),
        )
        self.backend = part["backends"].BACKENDS[device]
        self.new_context = lambda: part["context"].SuiteContext(self.backend, frozenset())
        self.context = self.new_context()
        self.operators._full_precision(self.context)
        self.cases = {(name, case.name): case for name in tables for case in self.references.table(name)}
        stored, torch = cache.with_suffix(".refs.pt"), self.torch
        if not stored.is_file():
            # In a process of their own, as verify has them: beside CUDA's libraries the heap was damaged.
            asking = self.new_context()
            asking.planned = tuple(f"operators.{name}" for name in tables)
            torch.save({name: self.references.references(asking, name) for name in tables}, stored)
        self.references.STORE.update(torch.load(stored, weights_only=True))
        mapped = cache.with_suffix(".map.json")
        if not mapped.is_file():
            mapped.write_text(json.dumps(self._record()), "utf-8")
        self.map: dict[str, list[list[str]]] = json.loads(mapped.read_text("utf-8"))
        self.database: Any = None
        if ops:
            module = importlib.import_module("mutation.database")
            self.database = module.Database(package, torch, device, cache.with_suffix(".ops.json"))

    def _record(self) -> dict[str, list[list[str]]]:
        """Run everything once; return operator -> cases that call it."""
        found: dict[str, list[list[str]]] = collections.defaultdict(list)
        whole = [("", name) for name in WHOLE if len({table for table, _ in self.cases}) == len(TABLES)]
        for key in [*self.cases, *whole]:
            with called() as seen:
                problem = self.run(*key)
            if problem:
                sys.stderr.write(f"not used, it fails on the unbroken torch: {key}: {problem}\n")
                continue
            for name in seen:
                found[name].append(list(key))
        return found

    def run(self, table: str, name: str) -> str | None:
        """Run a case, or a whole check where there is no table; return what is wrong."""
        try:
            if not table:
                self.checks[name].function(self.new_context())
                return None
            case, expected = self.cases[table, name], self.references.STORE[table][name]
            if "absent" in expected or "fault" in expected:
                return None
            for run in self.operators._runs(self.context, case, expected):
                try:
                    problem = self.operators._compare(self.context, case, run, expected[run[1]])
                except Exception as error:  # noqa: BLE001 - whatever it raises is seen by the check
                    if self.operators._lacks(error, run[0]):
                        continue
                    return f"{run}: {type(error).__name__}: {error}"[:200]
                if problem:
                    return f"{run}: {problem}"
        except Exception as error:  # noqa: BLE001 - as above
            return f"{type(error).__name__}: {error}"[:200]
        return None


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
            reason = "no kernel of its own on this device: it is made of others"
        elif name.startswith(_NO_CONTENT):
            reason = "its result has no content"
        elif all(_is_view(one) for one in found):
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


def _is_view(overload: Any) -> bool:
    aliases = [result.alias_info for result in overload._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


class Broken:
    """Replaces the kernels of one operator while it is entered; ``met`` says whether a result was changed,
    ``floating`` whether one was of a floating-point type."""

    def __init__(self, torch: Any, name: str, mutation: str, key: str) -> None:
        self.torch, self.mutation, self.key, self.met, self.floating = torch, mutation, key, False, False
        self._targets = [one for one in overloads(torch, name, key) if not _is_view(one)]
        self._inside = False
        self._earlier: dict[Any, Any] = {}

    def __enter__(self) -> Broken:
        self._library = self.torch.library.Library("aten", "IMPL")
        for overload in self._targets:
            kernel = self.torch.library.get_kernel(overload, self.key)
            self._library.impl(
                overload, self._replacement(kernel, overload), self.key, with_keyset=True, allow_override=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._library._destroy()

    def _replacement(self, kernel: Any, overload: Any) -> Any:
        tensors = [str(one.type) == "Tensor" for one in overload._schema.arguments]

        def replaced(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            args = tuple(
                self._tensor(one, args) if like else one for one, like in zip(args, tensors, strict=False)
            )
            if self._inside:
                return kernel.call_boxed(keyset, *args, **kwargs)
            strided = any(
                isinstance(one, self.torch.Tensor) and one.numel() > 1 and not one.is_contiguous()
                for one in args
            )
            result = kernel.call_boxed(keyset, *args, **kwargs)
            self._inside = True
            try:
                if result is None:
                    self._spoil(args[0], strided, args)
                    return None
                return self._spoil(result, strided, args)
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
        exact = isinstance(one, float) and other.is_floating_point()
        return self.torch.tensor(one, dtype=self.torch.float64 if exact else None)

    def _spoil(self, result: Any, strided: bool, args: Any) -> Any:
        if isinstance(result, (tuple, list)):
            return type(result)(self._spoil(one, strided, args) for one in result)
        if not isinstance(result, self.torch.Tensor) or result.numel() == 0:
            return result
        self.floating = self.floating or result.is_floating_point() or result.is_complex()
        changed = self._changed(result, strided)
        if changed is None:
            return result
        if self.torch.equal(changed.nan_to_num(7.0), result.nan_to_num(7.0)) and self.mutation != "nan":
            return result
        if self.mutation == "nan" and not bool(self.torch.isnan(result).any()):
            return result
        self.met = True
        return result.copy_(changed)

    def _changed(self, result: Any, strided: bool) -> Any:
        torch, mutation = self.torch, self.mutation
        if mutation == "stale":
            key = (result.shape, result.dtype)
            earlier, self._earlier[key] = self._earlier.get(key), result.clone()
            return earlier
        if mutation == "nan":
            return torch.where(torch.isnan(result), torch.zeros_like(result), result)
        chosen = torch.zeros(result.numel(), dtype=torch.bool, device=result.device)
        short = result.dtype in (torch.float16, torch.bfloat16)
        if mutation == "element":
            chosen[result.numel() // 2] = True
        elif mutation == "block":
            chosen[-max(1, result.numel() // 16) :] = True
        elif mutation == "batch":
            chosen = chosen.reshape(result.shape)
            if result.dim() > 1:
                chosen[1:2] = True
        elif mutation == "large":
            chosen[2**16 :] = True
        elif mutation == "percent" or (mutation == "stride" and strided) or (mutation == "half" and short):
            chosen[:: 1 if result.is_floating_point() or result.is_complex() else 100] = True
        return torch.where(chosen.reshape(result.shape), self._wrong(result), result)

    def _wrong(self, result: Any) -> Any:
        if result.dtype == self.torch.bool:
            return ~result
        if result.is_floating_point() or result.is_complex():
            return result * 1.1 + 0.1 if self.mutation == "element" else result * 1.01
        return result + 1


def attempt(bench: Bench, name: str, mutation: str) -> dict[str, Any]:
    """Return what became of a mutant: caught, survived, or never met."""
    began, ran = time.monotonic(), 0
    # What another kernel calls is below the recorder: the cases of that one.
    cases = list(bench.map.get(name.rstrip("_")) or bench.map.get(name.strip("_"), []))
    random.Random(f"{name} {mutation}").shuffle(cases)  # noqa: S311 - an order
    with Broken(bench.torch, name, mutation, bench.backend.dispatch_key) as broken:
        for key in cases:
            ran += 1
            problem = bench.run(*key)
            if problem:
                by = "/".join(filter(None, key))
                return {"result": "caught", "by": by, "said": problem[:160], "cases": ran,
                        "s": round(time.monotonic() - began, 2)}  # fmt: skip
        result = "survived" if broken.met else "never met" if cases else "never called"
        if cases and not broken.floating and mutation in ("half", "nan"):
            result = "does not apply"
    found = {"result": result, "cases": ran}
    if bench.database is not None and result != "does not apply":
        if mutation == "half" and result != "survived" and bench.database.has_no_short_type(name):
            found["result"] = "does not apply"
        else:
            found |= _by_database(bench, name, mutation)
    return {**found, "s": round(time.monotonic() - began, 2)}


def _by_database(bench: Bench, name: str, mutation: str) -> dict[str, Any]:
    """Return which pair of the suite ops notices a mutant, nothing where none does."""
    for pair in bench.database.pairs(name, mutation):
        problem = bench.database.run(
            lambda: Broken(bench.torch, name, mutation, bench.backend.dispatch_key), pair
        )
        if problem:
            return {"ops": " ".join(pair), "said": problem[:160]}
    return {}


def wanted(options: argparse.Namespace, torch: Any, key: str) -> list[tuple[str, str]]:
    """Return the mutants of a run in their order: a random sample comes first."""
    if options.pick:
        return [tuple(text.split("/")[:2]) for text in options.pick]
    names, _ = operators(torch, key)
    every = [(name, mutation) for name in names for mutation in MUTATIONS if options.only in name]
    random.Random(options.seed).shuffle(every)  # noqa: S311 - a sample
    return every[: options.sample or None]


def read(path: Path) -> list[dict[str, Any]]:
    """Return what a results file holds."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def work(options: argparse.Namespace) -> None:
    """Run mutants until all are done or the time is over."""
    end = time.monotonic() + (options.seconds or 1e9)
    tables = tuple(dict.fromkeys(text.split("/")[2] for text in options.pick)) or TABLES
    bench = Bench(options.device, options.out, tables, ops=options.ops)
    done = {(one["op"], one["mutation"]) for one in read(options.out) if "result" in one}
    with options.out.open("a", encoding="utf-8") as stream:
        for name, mutation in wanted(options, bench.torch, bench.backend.dispatch_key):
            if (name, mutation) in done:
                continue
            if time.monotonic() > end:
                return
            stream.write(json.dumps({"op": name, "mutation": mutation}) + "\n")
            stream.flush()
            signal.alarm(_HANGS_S)  # ends this process: the other one blames the mutant, and starts again
            found = {"op": name, "mutation": mutation, **attempt(bench, name, mutation)}
            signal.alarm(0)
            stream.write(json.dumps(found) + "\n")
            stream.flush()
    if bench.database is not None:
        bench.database.end()


def _caught(one: dict[str, Any]) -> bool:
    return one["result"] == "caught" or "ops" in one


def summary(path: Path) -> str:
    """Return the table of a results file: mutations by result, and the mutants that survived."""
    found = {(one["op"], one["mutation"]): one for one in read(path) if "result" in one}
    with_ops = any("ops" in one for one in found.values())
    heads = [*RESULTS, "caught with ops"] if with_ops else RESULTS
    lines = ["| mutation | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for mutation in (*MUTATIONS, "all"):
        of = [one for one in found.values() if mutation in (one["mutation"], "all")]
        counts = [sum(one["result"] == result for one in of) for result in RESULTS]
        counts += [sum(_caught(one) for one in of)] if with_ops else []
        lines.append(f"| {mutation} | " + " | ".join(map(str, counts)) + " |")
    counted = [one for one in found.values() if one["result"] != "does not apply"]
    caught, both = (sum(map(rule, counted)) for rule in (lambda one: one["result"] == "caught", _caught))
    share = f"{caught} of {len(counted)} mutants were caught ({caught / max(len(counted), 1):.1%})"
    lines.append(
        f"\n{share}" + (f", {both} with ops ({both / len(counted):.1%})." if with_ops else ".") + "\n"
    )
    for result in RESULTS[1:]:
        named = sorted(
            f"{one['op']}/{one['mutation']}{' (caught by ops)' if 'ops' in one else ''}"
            for one in found.values()
            if one["result"] == result
        )
        lines.append(f"{result}: {', '.join(named) or 'none'}\n")
    return "\n".join(lines)


def main() -> int:
    """Run the tool; status 1 where a process died without a mutant to blame."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "xpu"))
    parser.add_argument("--out", type=Path, default=Path("operator-mutants.jsonl"))
    parser.add_argument("--sample", type=int, default=0, help="number of mutants (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time")
    parser.add_argument("--only", default="", help="part of the operators' names")
    parser.add_argument("--pick", action="append", default=[], help="OPERATOR/MUTATION/TABLE")
    parser.add_argument("--ops", action="store_true", help="run the suite ops for what the tables leave")
    parser.add_argument("--summary", action="store_true", help="print the table of OUT alone")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return 0
    while not options.summary:
        if subprocess.run([sys.executable, __file__, *sys.argv[1:], "--worker"], check=False).returncode == 0:
            break
        last = (read(options.out) or [{"result": ""}])[-1]
        if "result" in last:
            return 1
        with options.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**last, "result": "caught", "by": "crash"}) + "\n")
    sys.stdout.write(summary(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
