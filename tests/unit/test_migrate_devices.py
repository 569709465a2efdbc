"""Devices as texts, the methods of tensors and modules, and where a text is no device."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.migrating import DEFINED, left, line, migrated

BACKEND = "torch.distributed.get_default_backend_for_device(ACCELERATOR)"
GENERAL = "torch.get_device_module(ACCELERATOR)"
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
    ("torch.cuda.is_available()", "torch.accelerator.is_available()", "torch.xpu.is_available()"),
    ("torch.cuda.set_device(r)", "torch.accelerator.set_device_index(r)", "torch.xpu.set_device(r)"),
    (
        "torch.cuda.synchronize(device=d)",
        "torch.accelerator.synchronize(d)",
        "torch.xpu.synchronize(device=d)",
    ),
    ("torch.cuda.empty_cache()", f"{GENERAL}.empty_cache()", "torch.xpu.empty_cache()"),
    ("torch.cuda.memory_cached()", f"{GENERAL}.memory_reserved()", "torch.xpu.memory_reserved()"),
    ("torch.cuda.manual_seed_all(1)", f"{GENERAL}.manual_seed_all(1)", "torch.xpu.manual_seed_all(1)"),
    ("s = torch.cuda.Stream()", f"s = {GENERAL}.Stream()", "s = torch.xpu.Stream()"),
    (
        "torch.profiler.ProfilerActivity.CUDA",
        "getattr(torch.profiler.ProfilerActivity, ACCELERATOR.upper())",
        "torch.profiler.ProfilerActivity.XPU",
    ),
    (
        'torch.distributed.init_process_group(backend="nccl")',
        f"torch.distributed.init_process_group(backend={BACKEND})",
        'torch.distributed.init_process_group(backend="xccl")',
    ),
]


@pytest.mark.parametrize(("before", "accelerator", "xpu"), BOTH)
def test_a_line_is_rewritten_for_both_targets(before: str, accelerator: str, xpu: str) -> None:
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
        ("torch.cuda.memory_summary()\n", "no-counterpart"),
        ("torch.cuda.get_device_capability()\n", "torch.cuda.get_device_capability"),
        ("import torch.nn as nn\nm = nn.DataParallel(m)\n", "torch.nn.DataParallel"),
        ("import apex\n", "apex"),
        ("from flash_attn import flash_attn_func\n", "flash_attn"),
        ("t = torch.cuda.FloatTensor(2)\n", "torch.cuda.tensor-type"),
        ("from pytorch_lightning import Trainer\nt = Trainer(accelerator='gpu')\n", "accelerator"),
        ("from torch.utils.cpp_extension import CUDAExtension\ne = CUDAExtension('a')\n",
         "torch.utils.cpp_extension.CUDAExtension"),
        ("import intel_extension_for_pytorch\n", "intel_extension_for_pytorch"),
        ("import intel_extension_for_pytorch as ipex\nm = ipex.optimize(m)\n",
         "intel_extension_for_pytorch.optimize"),
        ("with torch.xpu.fp8_autocast(enabled=True): pass\n", "torch.xpu.fp8_autocast"),
        ("torch.xpu.empty_host_cache_of_the_extension()\n", "no-counterpart"),
        ("from transformers import TrainingArguments\na = TrainingArguments(use_ipex=True)\n", "use_ipex"),
        ("from accelerate import Accelerator\na = Accelerator(ipex_plugin=p)\n", "ipex_plugin"),
        ("n = torch.xpu.get_device_properties(0).multi_processor_count\n", "multi_processor_count"),
        ("torch.backends.cuda.matmul.allow_tf32 = True\n", "torch.backends.cuda"),
        ("try:\n    from torch.cuda import Event\nexcept ImportError:\n    def Event(): pass\ne = Event()\n",
         "several-meanings"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_reported_with_reason_alternative_and_source(
    code: str, expected: str
) -> None:
    assert expected in left(code)
    (found, *_) = migrated(code).found
    assert found.line > 0
    assert found.reason.why
    assert found.reason.instead
    assert found.reason.source.startswith("https://")


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


# ---- Mixed precision: autocast, GradScaler and the decorators


OLD = "import torch\nfrom torch.cuda.amp import GradScaler, autocast"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with autocast(): pass", 'with torch.amp.autocast("xpu"): pass'),
        (
            "with autocast(on, torch.float16): pass",
            'with torch.amp.autocast("xpu", enabled=on, dtype=torch.float16): pass',
        ),
        ("with autocast(enabled=on): pass", 'with torch.amp.autocast("xpu", enabled=on): pass'),
        ("with torch.autocast('cuda'): pass", "with torch.autocast('xpu'): pass"),
        ('with torch.autocast(device_type="cuda"): pass', 'with torch.autocast(device_type="xpu"): pass'),
        ("s = GradScaler()", 's = torch.amp.GradScaler("xpu")'),
        ("s = GradScaler(2.0, enabled=on)", 's = torch.amp.GradScaler("xpu", 2.0, enabled=on)'),
        ("def f(s: GradScaler): pass", "def f(s: torch.amp.GradScaler): pass"),
        ("ok = isinstance(s, GradScaler)", "ok = isinstance(s, torch.amp.GradScaler)"),
    ],
)
def test_the_device_is_the_first_argument_and_the_others_keep_their_meaning(before: str, after: str) -> None:
    assert line(before, "xpu", head=OLD) == after


def test_decorators_without_a_call_get_one() -> None:
    code = "import torch\n@torch.cuda.amp.custom_fwd\ndef f(c): pass\n"
    code += "@torch.cuda.amp.custom_bwd\ndef g(c): pass\n"
    assert migrated(code, "xpu").text == code.replace("cuda.amp", "amp").replace(
        "fwd\n", 'fwd(device_type="xpu")\n'
    ).replace("bwd\n", 'bwd(device_type="xpu")\n')


def test_a_class_that_is_passed_on_is_reported() -> None:
    assert left("import torch\namp = torch.cuda.amp.autocast\n") == ["as-a-value"]
    assert left("import torch\namp = torch.cuda.amp\n") == ["as-a-value"]


# ---- For every program: it parses, the tree outside the edits is equal, a second run changes nothing


DEVICES = st.sampled_from(['"cuda"', "'cuda:0'", 'f"cuda:{n}"', '"cpu"', '"cuda:%d" % n', "args.device"])
VALUES = st.one_of(
    DEVICES.map(lambda device: f"torch.ones(2, device={device})"),
    DEVICES.map(lambda device: f"x.to({device})"),
    st.sampled_from([
        "x.cuda()", "x.cuda(args.gpu, non_blocking=True)", "torch.cuda.device_count()", "x.is_cuda",
        "cuda.memory_allocated()", "autocast(enabled=True)", "torch.cuda.nvtx.range_push('a')", "(1 +  2)",
        "torch.cuda.FloatTensor(3)", "[x.cuda() for x in y]", "lambda n: n.cuda( )", "{'cuda': 1}",
    ]),
)  # fmt: skip
STATEMENTS = st.one_of(
    VALUES.map(lambda value: f"value =  {value}   # why\n"),
    VALUES.map(lambda value: f"if not ({value}):\n\n  pass\n"),
    VALUES.map(lambda value: f"def f(device={value}):\n    return ({value},\n            n)\n"),
    st.sampled_from(
        ["\n", "# cuda\n", "other( 1,2 )\n", "with torch.cuda.device(0): pass\n", "for n in x: print(n)\n"]
    ),
)
HEAD = "import torch\nfrom torch import cuda\nfrom torch.cuda.amp import autocast\n"


@settings(max_examples=25, deadline=None)
@given(st.lists(STATEMENTS, max_size=6), st.sampled_from(["accelerator", "xpu"]))
def test_programs(statements: list[str], to: str) -> None:
    before = HEAD + "".join(statements)
    after = migrated(before, to)  # type: ignore[arg-type]
    ast.parse(after.text)
    lines = after.text.splitlines()
    for row in before.splitlines()[3:]:
        if "cuda" not in row and "autocast" not in row:
            assert row in lines
    kept = [ast.dump(node) for node in ast.parse(before).body if "cuda" not in ast.unparse(node).lower()]
    left = [ast.dump(node) for node in ast.parse(after.text).body]
    assert [node for node in left if node in kept and "ImportFrom" not in node]
    assert all(node in left for node in kept if "autocast" not in node)
