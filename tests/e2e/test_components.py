"""torchvision and torchaudio: real sources, built without a network by one install, and used."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from integration.mutations import mutate
from support import documents, upstream

from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.explain.document import explain_file
from xpubuild.verify.harness import run_suite

from .conftest import Built, Cli

#: Two compilations of 5 to 7 minutes on two idle cores, which this test may have to share.
_LONGEST_S = 3600
RECIPE = Path(__file__).parent.parent / "data/components/components.yaml"
NOWHERE = "0" * 40
#: How torchvision is broken -> what vision.files says.
BROKEN = {
    "not at all": ("", "4 images"),
    "colours in another order": (
        """
import torchvision.io as io
real = io.read_image
io.read_image = lambda *given, **named: real(*given, **named).flip(0)
""",
        "pixels differ by",
    ),
    "resized without a filter": (
        """
import torchvision.transforms as t
real = t.Resize.__init__
t.Resize.__init__ = lambda self, size, antialias: real(self, size, antialias=False)
""",
        "transform error is",
    ),
    "cut at the corner": (
        "import torchvision.transforms as t\nt.CenterCrop.forward = lambda self, x: x[..., :96, :96]",
        "transform error is",
    ),
    "a network that is off by 1/1000": (
        """
import torch
real = torch.nn.Conv2d.forward
torch.nn.Conv2d.forward = lambda self, x: real(self, x) * (1 if x.dtype == torch.float64 else 1.001)
""",
        "relative error is",
    ),
}
pytestmark = [
    pytest.mark.xdist_group("components"),
    pytest.mark.on_demand,
    pytest.mark.needs("g++", "libjpeg", "libpng", "netns"),
    pytest.mark.timeout(_LONGEST_S),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe with repositories that hold the distribution's source archives."""
    folder = tmp_path_factory.mktemp("components")
    text = RECIPE.read_text()
    for name in ("vision", "audio"):
        path, commit = upstream.repository(name, folder / "upstream")  # type: ignore[arg-type]
        before, _, after = text.partition(f"https://github.com/pytorch/{name}.git")
        text = f"{before}{Path(path).as_uri()}{after.replace(NOWHERE, commit, 1)}"
    for requirements in RECIPE.parent.glob("*.txt"):
        (folder / requirements.name).write_text(requirements.read_text())
    recipe = folder / "components.yaml"
    recipe.write_text(text)
    return recipe


@pytest.fixture(scope="module")
def mirror(cli: Cli, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the recipe needs, fetched; the repositories that it came from are gone then."""
    folder = tmp_path_factory.mktemp("mirrors") / "mirror"
    cli("fetch", site, "--without", "ops", "--mirror", folder).must(0)
    shutil.rmtree(site.parent / "upstream")
    return folder


@pytest.fixture(scope="module")
def components(cli: Cli, site: Path, mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Install where no route leads anywhere, with nothing that an earlier fetch left in the user's cache."""
    workspace = tmp_path_factory.mktemp("real parts") / "ws"
    words, env = _install(site, workspace, mirror), _clean_cache(workspace)
    answer = cli(*words, timeout=_LONGEST_S, network=False, env=env).must(0)
    return Built(workspace, answer.document)


def _clean_cache(workspace: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(workspace.parent / "cache")}


def _install(site: Path, workspace: Path, mirror: Path) -> tuple[str | Path, ...]:
    return (
        "install",
        site,
        "--workspace",
        workspace,
        "--without",
        "ops",
        "--offline",
        "--mirror",
        mirror,
        "--json",
    )


def _commands(receipt: dict[str, Any], step: str) -> list[dict[str, Any]]:
    return [item for item in receipt["commands"] if item["step"] == step]


def test_both_were_built_at_the_same_time_with_no_more_jobs_than_cores(
    cli: Cli, site: Path, components: Built
) -> None:
    receipt = components.receipt
    (vision,), (audio,) = (
        [item for item in _commands(receipt, f"{name}.wheel") if "pip" in item["argv"]]
        for name in ("vision", "audio")
    )
    words = ("--workspace", components.workspace, "--without", "ops", "--json")
    plan = cli("plan", site, *words, env=_clean_cache(components.workspace)).must(0)
    steps = {step["id"]: step for step in plan.document["steps"]}
    jobs = [int(steps[f"{name}.wheel"]["commands"][-1]["env"]["MAX_JOBS"]) for name in ("vision", "audio")]
    planned = int(str(plan.document["summary"]["jobs"]).split()[0])
    if planned > 1:
        assert vision["started"] < audio["started"] + audio["duration_s"]
        assert audio["started"] < vision["started"] + vision["duration_s"]
        assert sum(jobs) == planned
    else:
        assert jobs == [1, 1]
    ran = {tuple(item["argv"]) for item in receipt["commands"]}
    shown = {
        tuple(argv)
        for step in steps.values()
        for item in step["commands"]
        for argv in (item["argv"], *item.get("alternatives", ()))
    }
    assert ran <= shown, "something ran that the plan does not show"


def test_the_receipt_is_complete(components: Built) -> None:
    receipt = documents.check(components.receipt, "receipt")
    assert receipt["status"] == "complete"
    wheels = {wheel["name"]: wheel for wheel in receipt["wheels"]}
    assert {name: wheel["version"] for name, wheel in wheels.items()} == {
        "torchvision": "0.21.0",
        "torchaudio": "2.6.0",
    }
    for wheel in wheels.values():
        assert wheel["sha256"] == file_sha256(Path(wheel["path"]))
        assert wheel["abi"] == 1
        assert not [item for item in wheel["findings"] if item["severity"] == "error"]
        assert sum(item["abi_counts"]["new"] for item in wheel["objects"]) > 0
    evidence = {step["id"]: json.dumps(step["evidence"]) for step in receipt["steps"]}
    assert "torch 2.13.0+cpu" in evidence["vision.install"]
    (torch,) = (item for item in receipt["prebuilt"] if item["name"] == "torch")
    assert torch["version"] == "2.13.0+cpu"


def test_libraries_are_found_where_they_will_be(components: Built) -> None:
    objects = {
        Path(item["path"]).name: item for wheel in components.receipt["wheels"] for item in wheel["objects"]
    }
    assert {"_C.so", "image.so", "libtorchaudio.so", "_torchaudio.so"} <= set(objects)
    lib = next(components.workspace.glob("env/lib/python3*/site-packages/torch/lib"))
    for name in ("_C.so", "image.so", "libtorchaudio.so"):
        item = objects[name]
        assert item["missing"] == []
        assert item["found"]["libc10.so"].endswith(f"{lib}/libc10.so")
        assert item["found"]["libtorch_cpu.so"].endswith(f"{lib}/libtorch_cpu.so")
        assert not [entry for entry in item["rpath"] if entry.startswith("/")]
    needed = objects["image.so"]["needed"]
    assert all(any(item.startswith(name) for item in needed) for name in ("libpng", "libjpeg"))


def test_what_was_built_computes(cli: Cli, components: Built) -> None:
    assert components.receipt["verify"]["status"] == "pass"
    words = ("--only", "vision,audio,model.resnet50_inference", "--require", "vision,audio", "--json")
    document = cli("verify", "--workspace", components.workspace, *words).must(0).document
    checks = {check["id"]: check["status"] for check in document["checks"]}
    wanted = ("vision.nms", "vision.roi_align", "audio.lfilter", "audio.mel_spectrogram")
    assert {checks[name] for name in (*wanted, "model.resnet50_inference")} == {"pass"}


@pytest.mark.parametrize("broken", sorted(BROKEN))
def test_files_of_images_that_are_read_or_changed_wrongly(
    components: Built, tmp_path: Path, broken: str
) -> None:
    code, detail = BROKEN[broken]
    folder = mutate(tmp_path / "mutation", code, module="torchvision") if code else tmp_path
    env = {**base_environment(), "PYTHONPATH": str(folder)}
    python = components.workspace / "env/bin/python"
    report = run_suite(
        python, device="cpu", env=env, work=tmp_path / "work", suite="full", only=["vision.files"]
    )
    (found,) = [check for check in report.checks if check.id == "vision.files"]
    assert found.status == ("fail" if code else "pass"), found.detail
    assert detail in found.detail


def test_a_user_can_use_it(components: Built) -> None:
    program = """
import torch, torchvision, torchaudio
from torchvision.io import decode_jpeg, encode_jpeg
boxes = torch.tensor([[0., 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
assert torchvision.ops.nms(boxes, torch.tensor([.5, .9, .4]), .5).tolist() == [1, 2]
assert torchvision.models.resnet50(weights=None).eval()(torch.rand(1, 3, 64, 64)).shape == (1, 1000)
assert decode_jpeg(encode_jpeg(torch.full((3, 16, 16), 99, dtype=torch.uint8))).shape == (3, 16, 16)
wave = torch.tensor([1.0, 0, 0, 0])
found = torchaudio.functional.lfilter(wave, torch.tensor([1.0, -0.5]), torch.tensor([1.0, 0.0]))
assert found.tolist() == [1.0, 0.5, 0.25, 0.125], found
loss = torchaudio.functional.rnnt_loss(
    torch.zeros(1, 2, 2, 3), torch.ones(1, 1, dtype=torch.int32), torch.tensor([2], dtype=torch.int32),
    torch.tensor([1], dtype=torch.int32), blank=0)
# Two ways of three steps each, of probability 1/3 a step.
assert abs(loss.item() + torch.log(torch.tensor(2 / 27)).item()) < 1e-5, loss
print(torchvision.__version__, torchaudio.__version__)
"""
    python = components.workspace / "env/bin/python"
    done = subprocess.run(
        [python, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0.21.0", "2.6.0"]


def test_the_same_command_again_does_nothing(cli: Cli, site: Path, mirror: Path, components: Built) -> None:
    workspace = components.workspace
    again = cli(*_install(site, workspace, mirror), env=_clean_cache(workspace)).must(0).document
    assert again["ran"] == []
    assert again["wheels"] == components.receipt["wheels"]
    for name in ("vision", "audio"):
        status = ["git", "-C", str(components.workspace / "src" / name), "status", "--porcelain"]
        assert subprocess.run(status, capture_output=True, text=True, check=True).stdout == ""
        assert not (components.workspace / "src" / name / "build").exists()


def test_nothing_is_found_in_the_logs_of_builds_that_succeeded(components: Built) -> None:
    logs = sorted((components.workspace / "logs").glob("*.log"))
    assert {"vision.wheel.log", "audio.wheel.log"} <= {log.name for log in logs}
    for log in logs:
        answer = explain_file(log)
        assert (answer.first_error, answer.findings) == (None, ()), log.name
