#!/usr/bin/env python3
"""Count how often programs call each operator of PyTorch's database, for the order of ``verify --suite ops``.

Runs a training step of the suite's resnet50 and of small models of transformers (random weights, nothing is
downloaded) on the CPU, and counts function calls and operators that the dispatcher gets, backward included.
Each workload counts the same, whatever its depth. Writes xpubuild/verify/suite/database_order.json. Needs
torch, numpy, expecttest and transformers in this interpreter.
"""

from __future__ import annotations

import collections
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutation.tables import load_suite

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "xpubuild" / "verify" / "suite"
#: Of each workload, so many parts.
_WHOLE = 1_000_000
#: What the database calls otherwise than the dispatcher.
_OTHER_NAMES = {
    "convolution": "nn.functional.conv2d", "convolution_backward": "nn.functional.conv2d",
    "native_batch_norm": "nn.functional.batch_norm", "native_batch_norm_backward": "nn.functional.batch_norm",
    "native_layer_norm_backward": "nn.functional.layer_norm", "_softmax_backward_data": "softmax",
    "_log_softmax_backward_data": "log_softmax", "nll_loss_forward": "nn.functional.nll_loss",
    "nll_loss_backward": "nn.functional.nll_loss", "embedding_dense_backward": "nn.functional.embedding",
    "_scaled_dot_product_flash_attention_for_cpu": "nn.functional.scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "nn.functional.scaled_dot_product_attention",
    "max_pool2d_with_indices": "nn.functional.max_pool2d", "threshold_backward": "nn.functional.relu",
    "native_dropout": "nn.functional.dropout", "_unsafe_view": "view", "_to_copy": "to",
}  # fmt: skip


def database() -> tuple[Any, Any]:
    """Return torch and the suite's view of the database."""
    package = load_suite()
    return importlib.import_module("torch"), lambda name: importlib.import_module(f"{package}.{name}")


def steps(torch: Any, suite: Any) -> dict[str, Callable[[], None]]:
    """Return the workloads: name -> function that runs one training step."""
    transformers = importlib.import_module("transformers")
    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
             "vocab_size": 500}  # fmt: skip
    tokens = torch.randint(0, 500, (2, 32))
    images = torch.randn(2, 3, 64, 64)

    def train(model: Any, loss: Callable[[Any], Any]) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters())

        def step() -> None:
            loss(model).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

        return step

    def text(kind: str, **more: Any) -> Callable[[], None]:
        config = getattr(transformers, f"{kind}Config")(**{**small, **more})
        heads = {"Bert": "BertForMaskedLM", "T5": "T5ForConditionalGeneration"}
        model = getattr(transformers, heads.get(kind, f"{kind}ForCausalLM"))(config).train()
        return train(model, lambda made: made(input_ids=tokens, labels=tokens).loss)

    resnet = suite("resnet").ResNet50()
    cross_entropy = torch.nn.functional.cross_entropy
    vision = transformers.ViTForImageClassification(transformers.ViTConfig(
        image_size=64, **{name: value for name, value in small.items() if name != "vocab_size"}))  # fmt: skip
    answers = torch.tensor([0, 1])
    return {
        "resnet50": train(resnet, lambda model: cross_entropy(model(images), answers)),
        "Llama": text("Llama", num_key_value_heads=2),
        "Bert": text("Bert"),
        "T5": text("T5", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0),
        "ViT": train(vision, lambda model: model(pixel_values=images, labels=answers).loss),
    }


def count(torch: Any, step: Callable[[], None]) -> collections.Counter[str]:
    """Return the calls of one step by name: of functions, and of operators at the dispatcher."""
    function_mode: Any = importlib.import_module("torch.overrides").TorchFunctionMode
    dispatch_mode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
    calls: collections.Counter[str] = collections.Counter()

    class Functions(function_mode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = torch.overrides.resolve_name(function) or ""
            calls[name.removeprefix("torch.").removeprefix("Tensor.")] += 1
            return function(*args, **(kwargs or {}))

    class Operators(dispatch_mode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls[function._schema.name.partition("::")[2]] += 1
            return function(*args, **(kwargs or {}))

    with Functions(), Operators():
        step()
    return calls


def names(infos: dict[str, Any]) -> dict[str, str]:
    """Return name of a call -> entry of the database without a variant, or the first with one."""
    found: dict[str, str] = {}
    for entry, info in sorted(infos.items(), key=lambda item: bool(item[1].variant_test_name)):
        aliases = [alias.name for alias in info.aliases]
        for name in (info.name, info.name.rpartition(".")[2], info.aten_name or "", *aliases):
            found.setdefault(name, entry)
    return found | {name: entry for name, entry in _OTHER_NAMES.items() if entry in infos}


def main() -> int:
    """Count, and write the file."""
    torch, suite = database()
    torch.manual_seed(0)
    infos = suite("database").load()
    known, total = names(infos), collections.Counter[str]()
    for workload, step in steps(torch, suite).items():
        step()  # states of the optimiser are made once
        calls = count(torch, step)
        counted: collections.Counter[str] = collections.Counter()
        for name, number in calls.items():
            bare = name.strip("_")
            entry = known.get(name) or known.get(bare) or known.get(bare.removeprefix("foreach_"))
            if entry is not None:
                counted[entry] += number
        share = _WHOLE / counted.total()
        total.update({entry: round(number * share) for entry, number in counted.items()})
        sys.stderr.write(
            f"{workload}: {calls.total()} calls, {counted.total()} of {len(counted)} operators\n"
        )
    version = torch.__version__.partition("+")[0]
    about = f"scripts/count-operators.py, torch {version}, parts of {_WHOLE} per workload"
    uses = dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))
    path = SUITE / "database_order.json"
    path.write_text(json.dumps({"from": about, "uses": uses}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
