"""What the suite operators says of made tensors: results that are not unique, longer types, refusals."""

from __future__ import annotations

import json
from pathlib import Path

from integration.torch_env import TorchEnv
from support.imports import ROOT

PROGRAM = Path(__file__).with_name("database_cases.py")


def test_what_is_not_unique_may_differ_and_what_is_wrong_is_caught(torch_env: TorchEnv) -> None:
    ran = torch_env.run(torch_env.python, PROGRAM, PYTHONPATH=str(ROOT))
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    once, first = said.pop("eig: one twice"), "result 0: 2 of 3 elements are wrong"
    assert once.startswith(first)
    assert said == {
        "sort: same": "right",
        "sort: other of two equal": "right",
        "sort: another value": "result 1: 2 of 4 elements are wrong",
        "sort: one of two equal twice": "result 1: 1 of 4 elements are wrong",
        "sort: outside": "result 1: 1 of 4 elements are wrong",
        "sort: not stable": "result 1: 4 of 4 elements are wrong",
        "distinct": [2.0, None, 1.0, 3.0, 0.0],
        "distinct: too few numbers": [256.0, 256.0, 256.0],
        "derivative: equal": False,
        "derivative: different": True,
        "eig: other order": "right",
        "saved: longer": "right",
        "saved: shorter": "result 1: the type is bfloat16 instead of float16",
        "result: longer": "result 0: the type is float32 instead of float16",
        "refused": "skipped",
        "refused: option": "skipped",
        "refused: layout": "skipped",
        "no kernel": "failed",
        "no type": "failed",
        "devices": ["cpu", "cpu", "cpu"],
    }
