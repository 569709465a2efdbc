"""The one bundle, of a real workspace: a build that failed, then done; planted secrets stay out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.test_components_held import Site
from support.cli import here

from xpubuild.cli.verify import run_suites
from xpubuild.engine.process import Cancel
from xpubuild.errors import VerifyError

SECRETS = ("s3cretpw", "tok-99887766", "walterq", "mirror.corp.lan", "quillsmith", "10.11.12.13")
PLANTED = (
    "fetching https://walterq:s3cretpw@mirror.corp.lan/simple as walterq@corp.lan from 10.11.12.13",
    "-DKEY=tok-99887766 /home/walterq/include /data/quillsmith/x",
)
SETUP = f"""\
import sys
print("CMake Warning at cmake/Dependencies.cmake:79 (message):")
print("  Not compiling with XPU.  Could NOT find SYCL.", end="\\n\\n", flush=True)
for line in {PLANTED!r}:
    print(line, flush=True)
print("clang: error: unable to execute command: ocloc: No such file or directory", flush=True)
sys.exit(1)
"""


def bundle(site: Site, file: Path, *options: str) -> str:
    env = {"USER": "quillsmith", "HF_TOKEN": "tok-99887766", "XDG_CACHE_HOME": str(site.folder / "c")}
    words = ("doctor", "--only", "gpu.present", "--workspace", str(site.workspace), "--bundle", str(file))
    done = here(*words, *options, **env)
    assert done.status in (0, 10), done.err
    return file.read_text("utf-8")


def sections(text: str) -> dict[str, str]:
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    return {title: body for title, _, body in parts}


def documents(text: str) -> dict[str, Any]:
    """Return the JSON of each section that is some."""
    return {
        title: json.loads(body.split("```json\n")[1].partition("\n```")[0])
        for title, body in sections(text).items()
        if "```json\n" in body
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose extension failed to build, in a workspace that the real install made."""
    site = Site(tmp_path_factory.mktemp("bundle") / "a site")
    site.sources(**{"setup.py": SETUP})
    site.must(50)
    return site


def test_a_failed_build_is_told_whole_and_without_secrets(site: Site, tmp_path: Path) -> None:
    text = bundle(site, tmp_path / "b.md")
    for secret in SECRETS:
        assert secret not in text, secret
    found = documents(text)
    findings = found["Failures, explained"]["addon.wheel"]["findings"]
    assert findings[0]["id"] == "ocloc-missing"
    steps = {step["id"]: step["status"] for step in found["Steps and runs"]["steps"]}
    assert steps["addon.wheel"] == "failed"
    planned = [step["id"] for step in found["Plan"]["steps"]]
    assert {*steps} <= {*planned}
    log = sections(text)["End of the log: addon.wheel.log"]
    assert "unable to execute command: ocloc" in log
    assert "Could not be read" not in found


def test_a_finished_build_brings_its_audit_and_what_verify_said(site: Site, tmp_path: Path) -> None:
    site.sources()
    site.must(0)
    report = site.workspace / "build/verify.json"
    report.write_text(json.dumps({"schema": "xpubuild.verify/1", "status": "pass", "output": PLANTED}))
    text = bundle(site, tmp_path / "b.md")
    found = documents(text)
    assert found["Audits of wheels"][0]["wheel"].endswith("addon-1.0-py3-none-any.whl")
    assert found["Verify"]["status"] == "pass"
    assert "Failures, explained" not in found
    for secret in SECRETS:
        assert secret not in text, secret


def test_the_suites_that_ran_are_in_it(site: Site, tmp_path: Path) -> None:
    site.must(0)
    error = run_suites(site.workspace, Cancel(), quiet=True)
    assert isinstance(error, VerifyError)  # nothing of this site is a torch
    found = documents(bundle(site, tmp_path / "b.md"))
    for suite in ("full", "speed"):
        assert found[f"Verify: suite {suite}"]["suite"] == suite
        assert found[f"Verify: suite {suite}"]["status"] == "fail"


def test_install_writes_it_of_a_build_that_failed(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "b.md"
    site.sources(**{"setup.py": SETUP})
    done = site.install("--bundle", str(file))
    found = documents(file.read_text("utf-8"))
    assert done.status == 50
    # The checks of doctor, all of which ran, may decide for another finding to be the first.
    findings = found["Failures, explained"]["addon.wheel"]["findings"]
    assert "ocloc-missing" in {item["id"] for item in findings}
    assert "Verify: suite full" not in found
    site.sources()
    site.must(0)


def test_what_is_damaged_is_named_and_the_rest_is_there(site: Site, tmp_path: Path) -> None:
    (site.workspace / "build/plan.json").write_text("{")
    text = bundle(site, tmp_path / "b.md")
    found = documents(text)
    assert "the plan" in found["Could not be read"][0]
    assert "Steps and runs" in found
    assert "Plan" not in found
