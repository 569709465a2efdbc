"""Mixed precision: autocast, GradScaler and the decorators."""

from __future__ import annotations

import pytest
from support.migrating import left, line, migrated

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
