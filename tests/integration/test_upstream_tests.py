"""``xpubuild test``: a small tree of PyTorch's form, with torch-xpu-ops' lists, run by real pytest."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, Xpubuild
from support.documents import check
from support.files import lay, script

from xpubuild.workspace.upstream_selection import XPU_OPS, select

#: As little of torch as the probe asks for.
TORCH = """\
__version__ = "9.8.0"
class xpu:
    device_count = staticmethod(lambda: {count})
    get_device_name = staticmethod(lambda number: "a tile")
"""
TESTS = """\
import os, unittest
class TestOps(unittest.TestCase):
    def test_right(self):
        print("mask", os.environ.get("ZE_AFFINITY_MASK"), os.environ.get("PYTORCH_TEST_WITH_SLOW"))
    def test_wrong(self):
        self.assertEqual(1, {one})
    def test_dies(self):
        {dies}
    @unittest.skip("no second device")
    def test_peer(self):
        pass
    def test_without(self):
        raise RuntimeError("on the list")
"""
FILES = {
    "test/test_xpu.py": TESTS.format(one=1, dies="pass").replace("def test_without", "def helper"),
    f"{XPU_OPS}/skip_list_common.py": """\
TESTS = "../../../../test"
skip_dict = {
    f"{TESTS}/test_hub.py": None,
    "nn/test_pool_xpu.py": None,
    "test_ops_xpu.py": ("test_without and not test_elsewhere", ),
}
""",
    f"{XPU_OPS}/run_test_with_only.py": """\
def launch_test(case, skip_list=None, exe_list=None):
    raise OSError
execute_list = ("test_right",)
res = 0
res += launch_test("test_decomp_xpu.py", exe_list=execute_list)
""",
    "test/test_hub.py": "def test_hub(): pass\n",
    f"{XPU_OPS}/xpu_test_utils.py": 'import os\nos.environ["PYTORCH_TEST_WITH_SLOW"] = "1"\n',
    f"{XPU_OPS}/test_ops_xpu.py": TESTS.format(one=1, dies="pass"),
    f"{XPU_OPS}/test_decomp_xpu.py": TESTS.format(one=2, dies="os.abort()"),
    f"{XPU_OPS}/nn/test_pool_xpu.py": "import xpu_test_utils\ndef test_pool(): pass\n",
    f"{XPU_OPS}/test_unlisted_xpu.py": "raise ImportError\n",
    "benchmarks/dynamo/huggingface_models_list.txt": "Right,8\nWrong,4\nDies 1\n",
    "benchmarks/dynamo/huggingface.py": """\
import os, sys
only, output = (sys.argv[sys.argv.index(name) + 1] for name in ("--only", "--output"))
if only == "Dies":
    os.abort()
with open(output, "w") as file:
    file.write("dev,name,accuracy\\nxpu,%s,%s\\n" % (only, "pass" if only == "Right" else "fail_accuracy"))
""",
}


@dataclass
class World:
    tree: Path
    python: Path
    run: Xpubuild

    def put(self, name: str, text: str) -> None:
        lay(self.tree, {name: text})

    def __call__(self, *words: str, device: str = "xpu") -> Result:
        return self.run(
            "test", *words[: words.index("--") if "--" in words else None], "--python", str(self.python),
            "--device", device, "--source", str(self.tree), "--json",
            *(words[words.index("--") :] if "--" in words else ()),
        )  # fmt: skip

    def document(self, *words: str, status: int = 0) -> dict[str, Any]:
        result = self(*words)
        assert result.status == status, result.err
        return check(result.document(), "test")


@pytest.fixture
def world(tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "pytorch tree", tmp_path / "python", xpubuild)
    lay(made.tree, FILES)
    fake = lay(tmp_path / "fake", {"torch/__init__.py": TORCH.format(count=2)})
    script(made.python, f'PYTHONPATH="{fake}:$PYTHONPATH" exec "{sys.executable}" "$@"')
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return made


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {case["id"].removeprefix(f"{XPU_OPS}/"): case["outcome"] for case in document["cases"]}


def test_torch_xpu_ops_tests_run_by_its_lists_on_every_tile(world: World, tmp_path: Path) -> None:
    document = world.document("--junit", str(tmp_path / "junit.xml"))
    found = outcomes(document)
    assert found["test_decomp_xpu.py::TestOps::test_right"] == "passed", "what else is there is not run"
    assert {name for name in found if "decomp" in name} == {"test_decomp_xpu.py::TestOps::test_right"}
    assert found["test_ops_xpu.py::TestOps::test_peer"] == "skipped"
    assert not [name for name in found if "test_without" in name or "unlisted" in name]
    assert found["nn/test_pool_xpu.py::test_pool"] == "passed"
    assert found["test/test_hub.py::test_hub"] == "passed"
    assert found["test/test_xpu.py::TestOps::test_right"] == "passed"
    assert (document["lanes"], document["new"], document["accepted"]) == (2, [], None)
    assert 'name="TestOps::test_peer"' in (tmp_path / "junit.xml").read_text()
    # With -s what a test prints is in the log: on which tile it ran, and the variables of upstream's scripts.
    world.document(f"{XPU_OPS}/test_ops_xpu.py", "test/test_xpu.py", "-k", "right", "--", "-s")
    logs = "".join(path.read_text() for path in Path(document["logs"]).iterdir())
    assert "mask 0 1" in logs or "mask 1 1" in logs, logs
    assert "mask 0 None" in logs or "mask 1 None" in logs


def test_a_new_failure_is_named_first_and_accepted_ones_do_not_count(world: World) -> None:
    world.put("test/test_xpu.py", TESTS.format(one=2, dies="os.abort()"))
    document = world.document("test/test_xpu.py", status=70)
    names = [f"test/test_xpu.py::TestOps::test_{name}" for name in ("dies", "wrong", "without")]
    assert sorted(document["new"]) == sorted(names)
    found = {case["id"]: (case["outcome"], case["detail"]) for case in document["cases"]}
    assert found[names[0]] == ("crashed", "the process was killed by SIGABRT")
    assert found[names[1]] == ("failed", "AssertionError: 1 != 2")
    assert found["test/test_xpu.py::TestOps::test_right"][0] == "passed", "what follows the crash runs"
    # The last run is accepted without running again; a part of it that runs again is compared.
    assert world.document("--accept")["status"] == "pass"
    planted = TESTS.replace("_right", "_planted").replace('print("mask"', 'raise ValueError("planted"')
    world.put("test/test_xpu.py", planted.format(one=1, dies="os.abort()"))
    result = world("test/test_xpu.py")
    document = check(result.document(), "test")
    assert (result.status, document["new"]) == (70, ["test/test_xpu.py::TestOps::test_planted"])
    assert sorted(document["known"]) == sorted((names[0], names[2]))
    assert document["fixed"] == [names[1]]
    assert (
        "1 of 5 tests are new failures\n  why: test/test_xpu.py::TestOps::test_planted: ValueError"
        in result.err
    )
    assert "xpubuild test --python" in result.err
    # With paths, --accept runs them first; what did not run stays accepted.
    document = world.document("test/test_xpu.py", "-k", "planted", "--accept")
    assert len(document["accepted"]["bad"]) == 4


def test_where_nothing_runs_it_is_a_failure_with_the_reason(world: World) -> None:
    result = world("test/test_xpu.py", "-k", "peer")
    assert result.status == 70
    assert "all 1 tests were skipped: no second device" in result.err
    world.put("test/test_xpu.py", "import torch_of_another_release\n")
    document = world.document("test/test_xpu.py", status=70)
    assert document["new"] == ["test/test_xpu.py"]
    assert "No module named 'torch_of_another_release'" in document["cases"][0]["detail"]
    torch = world.python.parent / "fake" / "torch" / "__init__.py"
    torch.write_text(TORCH.format(count=0), "utf-8")
    result = world("test/test_xpu.py")
    assert (result.status, "torch finds no xpu device" in result.err) == (70, True), result.err
    torch.write_text("raise ImportError('libsycl.so.8')", "utf-8")
    result = world("test/test_xpu.py")
    assert (result.status, "ImportError: libsycl.so.8" in result.err) == (70, True), result.err


def test_paths_and_trees_that_are_not_there_are_errors_of_use(world: World, tmp_path: Path) -> None:
    result = world("test/test_xpv.py")
    assert (result.status, "test_xpu.py" in result.err) == (2, True)
    assert world("test/gone/test_x.py").status == 2
    result = world.run("test", "--python", str(world.python), "--device", "cpu", "--source", str(tmp_path))
    assert (result.status, "it has no folder test" in result.err) == (2, True)
    world.put(f"{XPU_OPS}/skip_list_common.py", "skip_dict = {\n")
    result = world()
    assert (result.status, "skip_list_common.py is not Python" in result.err) == (2, True)


def test_models_of_benchmarks_run_in_both_modes(world: World) -> None:
    document = world.document("benchmarks/dynamo/huggingface.py", "-k", "Right or Wrong or Dies", status=70)
    found = {case["id"].rpartition("::")[2]: (case["outcome"], case["detail"]) for case in document["cases"]}
    assert found["Right-training"] == ("passed", "pass")
    assert found["Wrong-inference"] == ("failed", "fail_accuracy")
    assert found["Dies-inference"] == ("crashed", "no result: the script was killed by SIGABRT")
    assert len(found) == 6
    (case,) = world.document("benchmarks/dynamo/huggingface.py::Wrong-training", status=70)["cases"]
    assert case["id"] in document["new"], "the command of the error runs this one again"


def test_lists_of_2_4_are_in_the_script_that_runs_them(tmp_path: Path) -> None:
    base = tmp_path / XPU_OPS
    (tmp_path / "test").mkdir(parents=True)
    base.mkdir(parents=True)
    (base / "run_test_with_skip.py").write_text(
        "def launch_test(test_case, skip_list=None, exe_list=None):\n"
        "    command = 'PYTORCH_ENABLE_XPU_FALLBACK=1 PYTORCH_TEST_WITH_SLOW=1 pytest -v ' + test_case\n"
        "res = 0\nskip_list = ('one', 'two',)\nres += launch_test('test_ops_xpu.py', skip_list)\n"
        "skip_list = ('three',)\nres += launch_test('test_two_xpu.py', skip_list)\n"
    )
    for name in ("test_ops_xpu.py", "test_two_xpu.py"):
        (base / name).touch()
    found = {unit.path.name: unit for unit in select(tmp_path, (), "xpu")}
    assert found["test_ops_xpu.py"].without == ("one", "two")
    assert found["test_two_xpu.py"].without == ("three",)
    assert found["test_ops_xpu.py"].env == {"PYTORCH_ENABLE_XPU_FALLBACK": "1", "PYTORCH_TEST_WITH_SLOW": "1"}
