"""Compares made tensors as the suite operators does, and prints what it says as JSON (run with torch)."""

import json
import math
import sys
from types import SimpleNamespace

import torch

from xpubuild.verify.suite import database_choice as choice
from xpubuild.verify.suite.database_compare import WrongError
from xpubuild.verify.suite.database_samples import _on_cpu, leaves
from xpubuild.verify.suite.database_trial import Forms, Trial, _verdict


def said(name, source, results, reference, *args, **kwargs):
    """Return what the comparison says of an operator's results, given those of the reference."""
    source = torch.tensor(source)
    info = SimpleNamespace(name=name, variant_test_name="", decorators=[])
    record = {
        "inputs": [source],
        "types": [str(one.dtype).partition(".")[2] for one in reference],
        "results": [{"value": one, "spread": None} for one in reference],
    }
    sample = SimpleNamespace(input=source, args=args, kwargs=kwargs)
    bench = SimpleNamespace(torch=torch, device="cpu")
    try:
        Forms(bench, info, source.dtype, None, "sample", sample, record)._same(results)
    except WrongError as wrong:
        return str(wrong)
    return "right"


def sort(*indices, **kwargs):
    source = [5, 1, 5, 1]
    values = torch.tensor([1, 1, 5, 5])
    return said(
        "sort", source, [values, torch.tensor(indices)], [values, torch.tensor([1, 3, 0, 2])], **kwargs
    )


def distinct(name, numbers, dtype):
    made = choice.made_distinct(torch, name, torch.tensor(numbers, dtype=dtype)).tolist()
    return [None if math.isnan(one) else one for one in made]  # NaN


def raised(error):
    trial = Trial()

    def run():
        raise error

    trial.attempt("forward", "sample 0", run)
    return _verdict(trial)["state"]


def eigen(*order):
    values, vectors = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[1.0, 2.0, 3.0]] * 3)
    results = [values[list(order)], vectors[:, list(order)]]
    return said("linalg.eig", [[1.0]], results, [values, vectors])


def saved(name, first, second):
    short = [torch.ones(2, dtype=torch.float16), torch.ones(2, dtype=torch.float16)]
    return said(name, [1.0, 1.0], [short[0].to(first), short[1].to(second)], short)


def devices():
    sample = SimpleNamespace(
        input=torch.ones(1), args=("cuda:0", torch.device("xpu", 1)), kwargs={"device": "cuda"}
    )
    found = leaves(_on_cpu(torch, sample))[0][1:]
    return [str(one) for one in found]


nan = float("nan")
sys.stdout.write(json.dumps({
    "sort: same": sort(1, 3, 0, 2),
    "sort: other of two equal": sort(3, 1, 2, 0),
    "sort: another value": sort(0, 3, 1, 2),
    "sort: one of two equal twice": sort(1, 1, 0, 2),
    "sort: outside": sort(1, 3, 0, 4),
    "sort: not stable": sort(3, 1, 2, 0, stable=True),
    "distinct": distinct("median", [3.0, nan, 1.0, 3.0, 0.0], torch.float32),
    "distinct: too few numbers": distinct("sort", [256.0, 256.0, 257.0], torch.bfloat16),
    "derivative: equal": choice.has_derivative(torch, "quantile", torch.ones(2)),
    "derivative: different": choice.has_derivative(torch, "quantile", torch.arange(2.0)),
    "eig: other order": eigen(2, 0, 1),
    "eig: one twice": eigen(0, 0, 1),
    "saved: longer": saved("native_batch_norm", torch.float16, torch.float32),
    "saved: shorter": saved("native_batch_norm", torch.float16, torch.bfloat16),
    "result: longer": saved("native_batch_norm", torch.float32, torch.float16),
    "refused": raised(RuntimeError("cuFFT only supports dimensions whose sizes are powers of two")),
    "refused: option": raised(RuntimeError("`driver` other than `gels` is not supported on CUDA")),
    "refused: layout": raised(NotImplementedError("with arguments from the 'SparseCsrCUDA' backend.")),
    "no kernel": raised(NotImplementedError("with arguments from the 'CUDA' backend.")),
    "no type": raised(RuntimeError('"add" not implemented for \'Half\'')),
    "devices": devices(),
}))  # fmt: skip
