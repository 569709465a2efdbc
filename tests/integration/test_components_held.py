"""No later pip step replaces torch or triton: whole installs with the real pip and tiny stand-ins.

The wheels named torch and triton here hold one Python file each. What pip, the plan and the proofs do with
them does not depend on their size.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from support.artifacts import record_line, record_text, unzip, wheel_files, zip_up
from support.cli import Result, here

from xpubuild.artifacts.freeze import HeldProof, hold
from xpubuild.artifacts.site_packages import site_packages_of
from xpubuild.engine.environment import base_environment
from xpubuild.errors import AuditError
from xpubuild.machine.make_env import make_env
from xpubuild.machine.pythons import resolve_python
from xpubuild.resources import recipes_dir


def wheel(folder: Path, name: str, version: str, *files: str, requires: str = "", body: str = "") -> Path:
    """Write a tiny wheel of a distribution that owns ``files``."""
    normal = name.replace("-", "_")
    content = {file: f"version = {version!r}\n{body}".encode() for file in files}
    wants = f"Requires-Dist: {requires}\n" if requires else ""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wants}".encode()
    everything = {
        **wheel_files(normal, version, content, tag="py3-none-any"),
        f"{normal}-{version}.dist-info/METADATA": metadata,
    }
    recorded = f"{normal}-{version}.dist-info/RECORD"
    lines = [record_line(*item) for item in everything.items()]
    everything[recorded] = record_text([*lines, (recorded, "", "")]).encode()
    return zip_up(folder / f"{normal}-{version}-py3-none-any.whl", everything)


def pins(*wheels: Path) -> str:
    """Return a hashed requirements text."""
    lines = []
    for path in wheels:
        name, version = path.name.split("-")[:2]
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


# --- the proof, in an environment that pip fills ---------------------------------------------------------


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / "an env"
    make_env(path, resolve_python(None, base_environment()))
    return path


def pip(env: Path, *words: str | Path) -> None:
    argv = [env / "bin/python", "-m", "pip", "--disable-pip-version-check", *words]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


def install(env: Path, *wheels: Path, options: tuple[str, ...] = ("--no-deps", "--no-index")) -> None:
    pip(env, "install", *options, *wheels)


def refusal(env: Path, *held: Path) -> AuditError:
    with pytest.raises(AuditError) as caught:
        HeldProof(str(site_packages_of(env)), tuple(map(str, held))).check()
    return caught.value


def test_what_is_held_is_still_there(env: Path, tmp_path: Path) -> None:
    install(env, wheel(tmp_path, "torch", "2.13.0+cpu", "torch/__init__.py", "functorch/__init__.py"))
    held = tmp_path / "held" / "torch.txt"
    assert hold(site_packages_of(env), "torch", held) == "torch==2.13.0+cpu"
    install(env, wheel(tmp_path, "vision", "1.0", "vision/__init__.py", requires="torch==2.13.0"))
    found = HeldProof(str(site_packages_of(env)), (str(held),)).check()
    assert found == {"owners": {"torch": ["torch 2.13.0+cpu"]}, "held": {"torch": "2.13.0+cpu"}}
    # Importing compiles, and pip compiles: neither is a change.
    subprocess.run([env / "bin/python", "-c", "import torch"], check=True)
    assert HeldProof(str(site_packages_of(env)), (str(held),)).check() == found


def test_two_owners_of_a_package(env: Path, tmp_path: Path) -> None:
    install(env, wheel(tmp_path, "pytorch-triton-xpu", "3.3.0", "triton/__init__.py", "triton/xpu.py"))
    held = tmp_path / "triton.txt"
    hold(site_packages_of(env), "pytorch-triton-xpu", held)
    install(env, wheel(tmp_path, "triton", "3.3.1", "triton/__init__.py"))
    error = refusal(env)
    assert error.exit_code == 60
    assert "pytorch-triton-xpu 3.3.0" in error.what
    assert "triton 3.3.1" in error.what
    assert error.commands == (f"'{env}/bin/python' -m pip uninstall --yes pytorch-triton-xpu triton",)


def test_another_build_of_the_same_version(env: Path, tmp_path: Path) -> None:
    install(env, wheel(tmp_path / "a", "torch", "2.8.0", "torch/__init__.py", body="built = 1"))
    held = tmp_path / "torch.txt"
    hold(site_packages_of(env), "torch", held)
    other = wheel(tmp_path / "b", "torch", "2.8.0", "torch/__init__.py", body="built = 2")
    install(env, other, options=("--no-deps", "--no-index", "--force-reinstall"))
    error = refusal(env, held)
    assert "another build of torch 2.8.0" in error.why
    (command,) = error.commands
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert "nothing" in refusal(env, held).why


def test_a_distribution_that_asks_for_another_torch(env: Path, tmp_path: Path) -> None:
    install(env, wheel(tmp_path, "torch", "2.13.0+cpu", "torch/__init__.py"))
    held = tmp_path / "torch.txt"
    hold(site_packages_of(env), "torch", held)
    install(env, wheel(tmp_path, "torchvision", "0.30", "torchvision/__init__.py", requires="torch==2.15.0"))
    error = refusal(env, held)
    assert "torchvision 0.30 requires torch==2.15.0" in error.what
    assert "torch 2.13.0+cpu" in error.what


# --- whole installs -------------------------------------------------------------------------------------

RECIPE = """\
schema: 1
name: held
title: tiny stand-ins for torch and triton, and an extension from source
target: cpu
targets: [cpu]
toolchain: {{requirements: [tools.txt]}}
components:
  torch: {{kind: wheel, dist: torch, version: 2.13.0+cpu, requirements: torch.txt}}
  triton: {{kind: wheel, dist: pytorch-triton-xpu, version: 3.3.0, requirements: triton.txt, needs: [torch]}}
  addon:
    kind: source
    dist: addon
    needs: [torch, triton]
    source: {{url: "{url}", commit: "{commit}"}}
    build: {{requirements: [addon.txt]}}
    audit: {{cxx11_abi: false}}
"""
SETUP = """\
from setuptools import setup
setup(name="addon", version="1.0", py_modules=["addon"], install_requires={requires!r})
"""


class Site:
    """A recipe of a site with everything it names, and ways to install it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.links, self.workspace = folder, folder / "links", folder / "a ws"
        self.links.mkdir(parents=True)
        tools = (recipes_dir() / "requirements/quickstart-toolchain.txt").read_text()
        blocks = re.findall(r"(?ms)^(?:setuptools|wheel|packaging)==.*?(?=^\S)", tools + "\nend")
        (folder / "tools.txt").write_text("".join(blocks))
        self.lists("torch", wheel(self.links, "torch", "2.13.0+cpu", "torch/__init__.py"))
        self.lists("triton", wheel(self.links, "pytorch-triton-xpu", "3.3.0", "triton/__init__.py"))
        self.lists("addon", wheel(self.links, "harmless", "1.0", "harmless.py", requires="torch>=2"))
        self.tree = folder / "addon"
        self.sources()

    def lists(self, name: str, *wheels: Path) -> None:
        (self.folder / f"{name}.txt").write_text(pins(*wheels))

    def sources(self, requires: tuple[str, ...] = ("torch",), **files: str) -> None:
        """Commit the sources of the extension, and pin them in the recipe."""
        self.tree.mkdir(exist_ok=True)
        (self.tree / ".gitignore").write_text("*.egg-info/\n")
        (self.tree / "setup.py").write_text(SETUP.format(requires=list(requires)))
        (self.tree / "addon.py").write_text("answer = 42\n")
        for name, text in files.items():
            (self.tree / name).write_text(textwrap.dedent(text))
        who = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
        git = ("git", *who, "-C", str(self.tree))
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "sources")):
            subprocess.run([*git, *words], check=True, capture_output=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        text = RECIPE.format(url=self.tree.as_uri(), commit=head.stdout.strip())
        (self.folder / "held.yaml").write_text(text)

    def install(self, *options: str, until: str = "addon.install") -> Result:
        words = ("install", str(self.folder / "held.yaml"), "--workspace", str(self.workspace))
        return here(*words, "--until", until, *options, PIP_FIND_LINKS=self.links.as_uri())

    def must(self, status: int) -> str:
        result = self.install()
        assert result.status == status, result.out + result.err
        assert "Traceback" not in result.err
        return " ".join(result.err.split())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Path]:
    """A site whose workspace has torch and triton, and a copy of all of it."""
    folder = tmp_path_factory.mktemp("site")
    site = Site(folder / "a site")
    result = site.install(until="triton")
    assert result.status == 0, result.err
    return site, Path(shutil.copytree(site.folder, folder / "as it was", symlinks=True))


@pytest.fixture
def site(prepared: tuple[Site, Path]) -> Site:
    """The site as it was: what comes before the extension is the same for all."""
    site, copy = prepared
    shutil.rmtree(site.folder)
    shutil.copytree(copy, site.folder, symlinks=True)
    return site


def test_a_requirement_that_wants_another_torch_is_refused_and_mended(site: Site) -> None:
    wheel(site.links, "torch", "1.0", "torch/__init__.py")
    site.lists("addon", wheel(site.links, "wants_old", "1.0", "wants_old.py", requires="torch==1.0"))
    said = site.must(60)
    assert "torch==2.13.0+cpu must be kept" in said
    assert "wants-old 1.0" in said
    proof = HeldProof(str(site_packages_of(site.workspace / "env")), ())
    assert proof.check()["owners"] == {"torch": ["torch 2.13.0+cpu"], "triton": ["pytorch-triton-xpu 3.3.0"]}
    site.lists("addon", wheel(site.links, "harmless", "1.0", "harmless.py", requires="torch>=2"))
    site.must(0)


def test_what_was_replaced_by_hand_is_noticed_and_mended(site: Site) -> None:
    # Seen with a whole PyTorch 2.6.0: pip took the 2.13.0 of such a folder instead of what was built.
    wheel(site.links, "addon", "9.0", "addon.py")
    site.must(0)
    env = site.workspace / "env"
    assert [path.name for path in site_packages_of(env).glob("addon-*.dist-info")] == ["addon-1.0.dist-info"]
    other = wheel(site.folder / "other", "torch", "2.13.0+cpu", "torch/__init__.py", body="other = 1")
    install(env, other, options=("--no-deps", "--no-index", "--force-reinstall"))
    said = site.must(0)
    assert "torch 2.13.0+cpu was replaced" in said
    assert "other" not in (site_packages_of(env) / "torch/__init__.py").read_text()


def test_nothing_of_an_earlier_pin_gets_into_the_wheel(site: Site) -> None:
    site.sources(**{"gone.py": "old = 1\n", "setup.py": SETUP.replace('["addon"]', '["addon", "gone"]')
                    .format(requires=["torch"])})  # fmt: skip
    site.must(0)
    (site.tree / "gone.py").unlink()
    site.sources()
    site.must(0)
    (built,) = (site.workspace / "wheels").glob("addon-*.whl")
    inside = unzip(built)
    assert "addon.py" in inside
    assert "gone.py" not in inside
    assert not (site.workspace / "src/addon/build").exists()


def test_the_exported_script_installs_with_the_same_constraints(site: Site, tmp_path: Path) -> None:
    plan = here(
        "plan", str(site.folder / "held.yaml"), "--workspace", str(site.workspace), "--format", "sh",
        PIP_FIND_LINKS=site.links.as_uri(),
    )  # fmt: skip
    script, target = tmp_path / "build.sh", tmp_path / "by hand"
    script.write_text(plan.out)
    done = subprocess.run(
        ["bash", script, target],
        env={**base_environment(), "PIP_FIND_LINKS": site.links.as_uri()},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (target / "build/held/torch.txt").read_text() == "torch==2.13.0+cpu\n"
    assert [path.name for path in (target / "wheels").iterdir()] == ["addon-1.0-py3-none-any.whl"]
    assert not (target / "src/addon/build").exists()
