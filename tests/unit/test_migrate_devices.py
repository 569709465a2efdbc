"""Devices as texts, the methods of tensors and modules, and where a text is no device."""

from __future__ import annotations

import pytest
from support.migrating import DEFINED, left, line, migrated

BOTH = [
    ('x = torch.device("cuda")', "x = torch.device(ACCELERATOR)", 'x = torch.device("xpu")'),
    ("x.to('cuda:1')", "x.to(f'{ACCELERATOR}:1')", "x.to('xpu:1')"),
    ("m.cuda()", "m.to(ACCELERATOR)", 'm.to("xpu")'),
    ("m.cuda(0)", 'm.to(f"{ACCELERATOR}:0")', 'm.to("xpu:0")'),
    ("m.cuda(rank)", "m.to(rank)", "m.to(rank)"),
    (
        "m.cuda(args.gpu)",
        "m.to(ACCELERATOR if args.gpu is None else args.gpu)",
        'm.to("xpu" if args.gpu is None else args.gpu)',
    ),
    ("x.cuda(non_blocking=True)", "x.to(ACCELERATOR, non_blocking=True)", 'x.to("xpu", non_blocking=True)'),
    ("x.cuda(rank, True)", "x.to(rank, non_blocking=True)", "x.to(rank, non_blocking=True)"),
    ("a = x.is_cuda", "a = (x.device.type == ACCELERATOR)", "a = x.is_xpu"),
    ('d = f"cuda:{rank}"', 'd = f"{ACCELERATOR}:{rank}"', 'd = f"xpu:{rank}"'),
    ('d = "cuda:%d" % rank', 'd = f"{ACCELERATOR}:%d" % rank', 'd = "xpu:%d" % rank'),
    ('d = "cuda:{}".format(1)', 'd = (ACCELERATOR + ":{}").format(1)', 'd = "xpu:{}".format(1)'),
    (
        'd = "cuda" if torch.cuda.is_available() else "cpu"',
        'd = ACCELERATOR if torch.accelerator.is_available() else "cpu"',
        'd = "xpu" if torch.xpu.is_available() else "cpu"',
    ),
    (
        'if device.type == "cuda": pass',
        "if device.type == ACCELERATOR: pass",
        'if device.type == "xpu": pass',
    ),
    (
        'p.add_argument("--device", default="cuda", choices=["cpu", "cuda"])',
        'p.add_argument("--device", default=ACCELERATOR, choices=["cpu", ACCELERATOR])',
        'p.add_argument("--device", default="xpu", choices=["cpu", "xpu"])',
    ),
    (
        'c = torch.load(f, map_location={"cuda:0": "cuda:%d" % rank})',
        'c = torch.load(f, map_location={f"{ACCELERATOR}:0": f"{ACCELERATOR}:%d" % rank})',
        'c = torch.load(f, map_location={"xpu:0": "xpu:%d" % rank})',
    ),
    ('def f(device="cuda"): pass', "def f(device=ACCELERATOR): pass", 'def f(device="xpu"): pass'),
    (
        'x = torch.ones(2, device="cuda")',
        "x = torch.ones(2, device=ACCELERATOR)",
        'x = torch.ones(2, device="xpu")',
    ),
]


@pytest.mark.parametrize(("before", "accelerator", "xpu"), BOTH)
def test_a_device_is_rewritten_for_both_targets(before: str, accelerator: str, xpu: str) -> None:
    assert line(before) == accelerator
    assert line(before, "xpu") == xpu


@pytest.mark.parametrize(
    "code",
    [
        "args.cuda = True\n",
        'print("cuda", "cuda:", x)\n',
        '"""cuda"""\n',
        "x = args.cuda or use_cuda\n",
        "# cuda\n",
    ],
)
def test_what_is_no_device_is_neither_rewritten_nor_reported(code: str) -> None:
    assert left(code) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('x = {"cuda": 1}\n', "unclear-text"),
        ('match kind:\n    case "cuda":\n        pass\n', "unclear-text"),
        ("c = torch.load(f, map_location=lambda storage, loc: storage.cuda(0))\n", "storage"),
        ("class A:\n    def cuda(self):\n        return self\na = A()\na.cuda()\n", "own-method"),
        ('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', "visible-devices"),
        ('torch.set_default_tensor_type("torch.cuda.FloatTensor")\n', "torch.cuda.tensor-type"),
    ],
)
def test_what_is_not_certain_is_reported(code: str, expected: str) -> None:
    assert expected in left(code)


def test_the_definition_stands_behind_the_imports_and_is_written_once() -> None:
    code = '"""Doc."""\nfrom __future__ import annotations\nimport os\nfrom x import y\n\nz = y.cuda()\n'
    after = migrated(code).text
    assert after == (
        '"""Doc."""\nfrom __future__ import annotations\nimport os\nfrom x import y\nimport torch\n'
        f"{DEFINED}\nz = y.to(ACCELERATOR)\n"
    )
    assert migrated(after + "y.cuda()\n").text == after + "y.to(ACCELERATOR)\n"


def test_a_torch_of_2_6_which_raises_an_error_without_a_gpu_is_asked_first() -> None:
    after = migrated("import torch\nx.cuda()\n", release="2.6").text
    assert '.type if torch.accelerator.is_available() else "cuda"\n' in after


def test_torch_under_another_name_is_used_by_that_name() -> None:
    assert "th.accelerator.synchronize()" in migrated("import torch as th\nth.cuda.synchronize()\n").text


@pytest.mark.parametrize("before", [
    'import os\nDEVICE = "cuda"\nimport torch\nimport a\n',
    'import torch\ntorch.set_default_device("cuda")\nimport a\n',
    '"""Of torch."""\nfrom __future__ import annotations\nif A:\n    D = "cuda:0"\nimport torch as torch\n',
    "import torch\n@f(device='cuda')\ndef g(): pass\nimport torch.nn\n",
])  # fmt: skip
def test_the_device_is_defined_before_its_first_use(before: str) -> None:
    lines = migrated(before, "accelerator").text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("ACCELERATOR ="))
    assert not any("ACCELERATOR" in line for line in lines[:at])
    assert any(line.startswith("import torch") for line in lines[:at])
    assert lines[0] == before.splitlines()[0]


def test_a_text_has_no_quotes_of_its_own_in_its_expressions() -> None:
    before = """import torch\nprint(f"{x.cuda(0)} {x['a'].cuda()}", f'{x.cuda(1)}')\n"""
    accelerator, xpu = (migrated(before, to).text.splitlines()[-1] for to in ("accelerator", "xpu"))
    assert xpu == """print(f"{x.to('xpu:0')} {x['a'].to('xpu')}", f'{x.to("xpu:1")}')"""
    assert "{x.to(f'{ACCELERATOR}:0')}" in accelerator
    assert '{x.to(f"{ACCELERATOR}:1")}' in accelerator


@pytest.mark.parametrize("call", ["x.cuda(*a)", "x.cuda(**a)"])
def test_arguments_that_are_collected_elsewhere_are_a_finding(call: str) -> None:
    result = migrated(f"import torch\n{call}\n", "accelerator")
    assert call in result.text
    assert [item.reason.id for item in result.found] == ["collected-arguments"]
