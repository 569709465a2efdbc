"""For every program: it parses, the tree outside the edits is equal, a second run changes nothing."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st
from support.migrating import migrated

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
    for line in before.splitlines()[3:]:
        if "cuda" not in line and "autocast" not in line:
            assert line in lines
    kept = [ast.dump(node) for node in ast.parse(before).body if "cuda" not in ast.unparse(node).lower()]
    left = [ast.dump(node) for node in ast.parse(after.text).body]
    assert [node for node in left if node in kept and "ImportFrom" not in node]
    assert all(node in left for node in kept if "autocast" not in node)
