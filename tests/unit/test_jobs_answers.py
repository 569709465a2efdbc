"""What jobs are made of, whole: kinds of nodes, matrices, manifests and folders."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from unit.test_jobs_render import request

from xpubuild.jobs.folder import read_manifest, write
from xpubuild.jobs.render import files_of


def test_a_folder_is_of_jobs_only_with_a_manifest_of_ours(tmp_path: Path) -> None:
    write(tmp_path / "ours", files_of(request(folder=str(tmp_path / "ours"))))
    found = read_manifest(tmp_path / "ours")
    assert found is not None
    assert {key: found[key] for key in ("schema", "made_by", "scheduler")} == {
        "schema": "xpubuild.jobs-folder/1", "made_by": "xpubuild plan", "scheduler": "slurm",
    }  # fmt: skip
    assert [list(job) for job in found["jobs"]] == [["name", "kind", "cell", "needs"]] * 4
    (job, *_) = found["jobs"]
    changes: tuple[dict[str, Any], ...] = (
        {"schema": "x"}, {"scheduler": "lsf"}, {"jobs": {}}, {"jobs": [1]},
        {"jobs": [{**job, "name": "../x"}]}, {"jobs": [{**job, "name": "a b"}]},
        {"jobs": [{"name": "a", "kind": "fetch"}]},
    )  # fmt: skip
    for change in changes:
        (tmp_path / "jobs.json").write_text(json.dumps({**found, **change}))
        assert read_manifest(tmp_path) is None, change
    for text in ("[]", "{", ""):
        (tmp_path / "jobs.json").write_text(text)
        assert read_manifest(tmp_path) is None


def test_scripts_of_an_earlier_plan_go_and_results_stay(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    texts = files_of(request(folder=str(folder)))
    write(folder, texts)
    (folder / "done").mkdir()
    (folder / "jobs" / "mine.sh").touch()
    other = {path: text for path, text in texts.items() if "-fetch-" not in path}
    write(folder, other)
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {*other, "jobs/mine.sh"}
    assert (folder / "done").is_dir()
    modes = {path: stat.S_IMODE((folder / path).stat().st_mode) for path in other}
    assert {path for path, mode in modes.items() if mode == 0o755} == {
        "submit", *(path for path in other if path.startswith("jobs/")),
    }  # fmt: skip
