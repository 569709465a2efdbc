"""Built against the torch of the workspace: answers in a copy, METADATA of the wheel, the steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.artifacts import install_by_hand, pack
from support.plans import chosen, pinned, plan_of, target_of

from xpubuild.artifacts.against import NOTE, TREE, AgainstProof, answer, held, rewrite
from xpubuild.errors import AuditError, RecipeError, UnsatisfiableError

KNOWN = {"torch": "torch==2.13.0+mine", "triton": "triton-xpu==3.7.2", "triton-xpu": "triton-xpu==3.7.2"}
PYPROJECT = """\
[build-system]
requires = ["setuptools", "torch == 2.14.0+xpu", 'torch==2.14.0+xpu; python_version > "3"']

[project]
name = "triton"
dependencies = ["torch[opt]>=2.14", "torch>=2.4,<3", "numpy"]
optional-dependencies = {test = ["triton==3.0"]}
"""
LINES = """\
# torch==2.15.0+xpu is what upstream has
--extra-index-url=https://host/xpu
  torch==2.15.0+xpu  # and no other
torch==2.15.0+xpu.post1
triton-xpu
setuptools>=77
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    install_by_hand(folder, "torch", "2.13.0+mine", {"torch/__init__.py": b""})
    install_by_hand(folder, "triton_xpu", "3.7.2", {"triton/__init__.py": b""})
    install_by_hand(folder, "numpy", "2.4.6", {})
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "kernels"
    (folder / "python").mkdir(parents=True)
    (folder / "python" / "pyproject.toml").write_text(PYPROJECT)
    (folder / "python" / "requirements.txt").write_text(LINES)
    return folder


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("torch==2.14.0+xpu", "torch==2.13.0+mine"), ("torch", None), ("torch>=2.4,<3", None),
        ("torch==2.13.0", None), ("torch==2.13.0+xpu", "torch==2.13.0+mine"),
        ("Torch[b,a] >=2.14; extra == 'y'", "torch[a,b]==2.13.0+mine; extra == 'y'"),
        ("torch @ https://host/torch.whl", "torch==2.13.0+mine"), ("triton==3.0", "triton-xpu==3.7.2"),
        ("triton", "triton-xpu==3.7.2"), ("triton-xpu", None), ("torchvision==0.1", None), ("numpy==1", None),
        ("-r other.txt", None), ("", None),
    ],
)  # fmt: skip
def test_what_is_met_stays_and_what_is_not_gets_the_installed_version(
    asked: str, answered: str | None
) -> None:
    assert answer(asked, KNOWN) == answered


def test_requirements_are_answered_in_a_copy_alone(tree: Path, site: Path, tmp_path: Path) -> None:
    assert held(site).items() >= KNOWN.items()
    assert "numpy" not in held(site)
    into = tmp_path / "build"
    said = list(rewrite(tree, into, "python", ("requirements.txt",), site))
    assert said[0] == "pyproject.toml: torch == 2.14.0+xpu is answered by torch==2.13.0+mine"
    assert (tree / "python" / "pyproject.toml").read_text() == PYPROJECT
    assert (tree / "python" / "requirements.txt").read_text() == LINES
    assert (
        (into / TREE / "python" / "pyproject.toml").read_text()
        == """\
[build-system]
requires = ["setuptools", "torch==2.13.0+mine", 'torch==2.13.0+mine; python_version > "3"']

[project]
name = "triton"
dependencies = ["torch[opt]==2.13.0+mine", "torch>=2.4,<3", "numpy"]
optional-dependencies = {test = ["triton-xpu==3.7.2"]}
"""
    )
    assert (
        (into / TREE / "python" / "requirements.txt").read_text()
        == """\
# torch==2.15.0+xpu is what upstream has
--extra-index-url=https://host/xpu
torch==2.13.0+mine  # and no other
torch==2.13.0+mine
triton-xpu
setuptools>=77
"""
    )
    note = json.loads((into / NOTE).read_text())
    assert len(note) == len(said) == 6
    assert note[-1] == {
        "file": "requirements.txt", "asked": "torch==2.15.0+xpu.post1", "answered": "torch==2.13.0+mine",
    }  # fmt: skip
    # A second time, over what the first has left.
    assert list(rewrite(tree, into, "python", ("requirements.txt",), site)) == said


def test_a_tree_without_metadata_of_its_own_is_only_copied(tree: Path, site: Path, tmp_path: Path) -> None:
    assert list(rewrite(tree, tmp_path / "build", ".", (), site)) == []
    assert json.loads((tmp_path / "build" / NOTE).read_text()) == []


def test_a_file_that_is_not_there_or_is_elsewhere_is_refused(tree: Path, site: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("torch==2.15.0\n")
    (tree / "link.txt").symlink_to(tmp_path / "outside.txt")
    for name in ("gone.txt", "link.txt"):
        with pytest.raises(RecipeError, match="no requirement file"):
            list(rewrite(tree, tmp_path / "build", ".", (name,), site))
    assert (tmp_path / "outside.txt").read_text() == "torch==2.15.0\n"


def test_the_wheel_requires_the_torch_it_was_built_with(site: Path, tmp_path: Path) -> None:
    def proof(metadata: str) -> AgainstProof:
        stage = tmp_path / "stage"
        for old in stage.glob("*.whl"):
            old.unlink()
        stage.mkdir(exist_ok=True)
        pack(stage, "kernels", "1.0", {}, metadata=metadata)
        return AgainstProof(str(stage), str(site), str(tmp_path / NOTE))

    (tmp_path / NOTE).write_text('[{"file": "a"}]')
    asked = "Requires-Dist: torch>=2.4\nRequires-Dist: numpy\nRequires-Dist: torch==1; extra == 'old'\n"
    assert proof(asked).check() == {
        "against": {
            "rewritten": [{"file": "a"}],
            "requires": ["torch>=2.4"],
            "installed": ["torch==2.13.0+mine", "triton-xpu==3.7.2"],
        }
    }
    (tmp_path / NOTE).unlink()
    assert proof("").check()["against"]["rewritten"] == []
    with pytest.raises(AuditError) as caught:
        proof("Requires-Dist: torch==2.14.0+xpu\n").check()
    assert caught.value.why == "METADATA requires torch==2.14.0+xpu, built with torch==2.13.0+mine"
    assert "no other torch" in proof("").describe()


AGAINST = {"against": ["requirements.txt"], "source_dir": "python"}
KERNELS = pinned("kernels", more={"needs": ["torch"], "build": AGAINST})
BUILT = {"torch": pinned("torch"), "kernels": KERNELS}


def test_the_copy_is_made_after_the_tree_was_proved_and_the_wheel_is_proved_after_it() -> None:
    step = plan_of(components=BUILT).step("kernels.wheel")
    check, copy, build = step.commands
    assert check.argv[2:4] == ("front-end", "/ws/src/kernels/python")
    assert copy.argv[2:] == (
        "against", "/ws/src/kernels", "/ws/build/against/kernels", "--env", "/ws/env", "--folder", "python",
        "--file", "requirements.txt",
    )  # fmt: skip
    assert copy.portable is not None
    assert copy.portable[-1] == "exit 1"
    assert build.argv[-1] == "/ws/build/against/kernels/tree/python"
    assert "--no-build-isolation" in build.argv
    assert "/ws/build/against/kernels" in step.fresh
    assert {"proof": "against", "site_packages": "/ws/env/lib/python3.11/site-packages"} in [
        proof.key() for proof in step.proofs
    ]


def test_others_and_editable_installs_are_built_in_their_tree() -> None:
    assert len(plan_of(components=BUILT).step("torch.wheel").commands) == 2
    plan = plan_of({"editable": True}, components=BUILT)
    assert not any("against" in command.argv for step in plan.steps for command in step.commands)
    assert "/ws/src/kernels/python" in plan.step("kernels.install").commands[-2].argv


SYCL = {"sycl": {"pvc": "intel_gpu_pvc", "bmg": "intel_gpu_bmg_g21"}, "list": {"pvc": "pvc", "bmg": "b"}}
NAMED = {"arch": SYCL, "env": {"A": "{sycl}", "B": "{arch}"}, "config_settings": {"c": "{list};{target}"}}
FOR_XPU = {"target": "xpu", "targets": ["xpu", "cpu"], "arch": ["pvc"]}


def components(**build: object) -> dict[str, object]:
    return {"torch": pinned("torch"), "mine": pinned("mine", more={"optional": True, "build": build})}


def test_one_arch_has_the_names_of_each_build() -> None:
    target = target_of(
        {"with_": ("mine",), "arch": ("bmg", "pvc")}, components=components(**NAMED), **FOR_XPU
    )
    assert target.fill("{sycl}", "mine") == "intel_gpu_bmg_g21,intel_gpu_pvc"
    assert target.fill("{list};{target}", "mine") == "b,pvc;xpu"
    assert target.fill("{sycl}", "torch") == "{sycl}"
    with pytest.raises(RecipeError) as caught:
        chosen({}, env={"A": "{sycl}"}, components=components(**NAMED))
    assert "env.A: '{sycl}' is not a placeholder" in caught.value.why


def test_a_component_that_knows_no_max_is_refused_with_this_reason() -> None:
    only = components(arch={"sycl": {"bmg": "intel_gpu_bmg_g21"}})
    with pytest.raises(UnsatisfiableError) as caught:
        target_of({"with_": ("mine",)}, components=only, **FOR_XPU)
    assert (
        "bmg as AOT targets of mine; its build does not know pvc (GPUs of the family max)" in caught.value.why
    )
    assert target_of({"with_": ("mine",), "arch": ("bmg",)}, components=only, **FOR_XPU).arch == ("bmg",)
    assert target_of({"with_": ("mine",), "arch": ("none",)}, components=only, **FOR_XPU).arch == ("none",)
    assert target_of(components=only, **FOR_XPU).components == ("torch",)
