"""Job scripts as text: directives, names, quoting, the matrix, and folders that are not ours."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from xpubuild.errors import RecipeError, UsageError
from xpubuild.jobs.asked import matrix_of
from xpubuild.jobs.folder import write
from xpubuild.jobs.render import (
    Cell,
    Job,
    Kind,
    Nodes,
    Proof,
    Request,
    Scheduler,
    files_of,
    fixed_script,
    jobs_of,
    nodes_of,
)

CELL = Cell(
    id="2.8",
    recipe="2.8",
    lock_digest="a" * 64,
    fetch=("2.8", "--with", "vision"),
    install=("2.8", "--with", "vision", "--jobs", "4"),
    steps=("vision.install", "ops.install"),
    python="/opt/my python/bin/python3",
    device="xpu",
)
NODES: dict[Kind, Nodes] = {
    "build": Nodes(
        partition="cpu", account="chem", time="1-02:00:00", cores=64, memory="240G",
        setup=("module load gcc/13", "ulimit -c 0"),
    ),
    "verify": Nodes(partition="gpu", time="00:10:00", gpus="1", directives=("--constraint=max",)),
}  # fmt: skip


def request(scheduler: Scheduler = "slurm", folder: str = "/shared/it's a folder") -> Request:
    return Request(
        scheduler=scheduler, folder=folder, cells=(CELL,), nodes=NODES,
        xpubuild=("/shared/an env/bin/python", "-m", "xpubuild"), mirror=f"{folder}/mirror", fetched=True,
    )  # fmt: skip


def script(found: dict[str, str], kind: str) -> str:
    (text,) = (text for path, text in found.items() if path.startswith("jobs/") and f"kind={kind} " in text)
    return text


def directives(text: str) -> list[str]:
    return re.findall(r"^#(?:SBATCH|PBS) (.*)$", text, re.MULTILINE)


def test_directives_of_slurm() -> None:
    found = files_of(request())
    name, *rest = directives(script(found, "build"))
    assert re.fullmatch(r"--job-name=xb-2\.8-build-[0-9a-f]{12}", name)
    assert rest == [
        "--nodes=1 --ntasks-per-node=1", "--requeue --open-mode=append", "--signal=B:USR1@600",
        "--partition=cpu", "--account=chem", "--time=1-02:00:00", "--cpus-per-task=64", "--mem=240G",
    ]  # fmt: skip
    assert directives(script(found, "verify"))[3:] == [
        "--signal=B:USR1@300", "--partition=gpu", "--time=00:10:00", "--gres=gpu:1", "--constraint=max",
    ]  # fmt: skip
    assert directives(script(found, "fetch"))[3:] == ["--signal=B:USR1@600"]


def test_directives_of_pbs() -> None:
    found = files_of(request("pbs"))
    name, *rest = directives(script(found, "build"))
    # PBS allows 15 characters.
    assert re.fullmatch(r"-N b-[0-9a-f]{12}", name)
    assert rest == ["-r y", "-q cpu", "-A chem", "-l walltime=26:00:00", "-l select=1:ncpus=64:mem=240G"]
    assert "stop_after_s=93000 limit_s=93600 driver=''\n" in script(found, "build")
    assert "afternotok:" in found["lib/scheduler.sh"]
    assert "SBATCH" not in "".join(found.values())


def test_the_commands_of_a_build() -> None:
    text = script(files_of(request()), "build")
    body = text.partition("begin\n")[2]
    assert body.startswith('{\nmodule load gcc/13\nulimit -c 0\n} || settle "$site_failed"\n')
    quoted = shlex.quote("/shared/it's a folder/mirror")
    words = f'install 2.8 --with vision --jobs 4 --offline --mirror {quoted} --workspace "$workspace"'
    assert 'workspace="$place/ws"\n' in body
    assert body.count(words) == 2
    assert "steps=(vision.install)\n" in body
    assert "--until ops.install --wheel-dir " in body
    given = replace(request(), cells=(replace(CELL, workspace="/scratch/w s"),), cache="/scratch/cache")
    body = script(files_of(given), "build")
    assert "workspace='/scratch/w s'\n" in body
    assert "XDG_CACHE_HOME=/scratch/cache\n" in body


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_all_scripts_are_bash(scheduler: Scheduler, tmp_path: Path) -> None:
    folder = tmp_path / "it's a $folder"
    write(folder, files_of(request(scheduler, str(folder))))
    scripts = [folder / "submit", *(folder / "lib").iterdir(), *(folder / "jobs").iterdir()]
    assert len(scripts) == 7
    for path in scripts:
        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path
        assert os.access(path, os.X_OK) == (path.parent.name != "lib")


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_all_scripts_under_shellcheck(scheduler: Scheduler, tmp_path: Path) -> None:
    write(tmp_path, files_of(request(scheduler, str(tmp_path))))
    # What one file sets and another uses; and that other files are there.
    left_out = "--exclude=SC1091,SC2034,SC2154"
    scripts = [tmp_path / "submit", *(tmp_path / "lib").iterdir(), *(tmp_path / "jobs").iterdir()]
    words = ["shellcheck", "--shell=bash", left_out, *map(str, scripts)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_names_change_with_what_is_built() -> None:
    def names(asked: Request) -> dict[str, str]:
        return {job.kind: job.name for job in jobs_of(asked)}

    usual = names(request())
    assert names(request()) == usual
    other = names(replace(request(), cells=(replace(CELL, lock_digest="b" * 64),)))
    assert {kind for kind in usual if usual[kind] != other[kind]} == {"build", "verify", "report"}
    assert not set(usual.values()) & set(names(request(folder="/else")).values())


def test_what_is_the_same_is_fetched_once() -> None:
    cells = (CELL, replace(CELL, id="b"), replace(CELL, id="c", fetch=("2.9",)))
    jobs = jobs_of(replace(request(), cells=cells))

    def of(kind: Kind) -> list[Job]:
        return [job for job in jobs if job.kind == kind]

    first, second = of("fetch")
    assert (first.after, second.after) == ((), (first.name,))
    assert [job.needs for job in of("build")] == [(first.name,), (first.name,), (second.name,)]
    assert [job.needs for job in of("verify")] == [(job.name,) for job in of("build")]
    assert not [job for job in jobs_of(replace(request(), fetched=False)) if job.kind == "fetch"]


@pytest.mark.parametrize(
    ("name", "value"), [("time", "90"), ("partition", "a b"), ("memory", "1\n#SBATCH x"), ("cores", 0.0)]
)
def test_a_value_that_cannot_be_in_a_directive(name: str, value: object) -> None:
    with pytest.raises(RecipeError, match=name):
        nodes_of("build", {name: value})


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    files = files_of(request(folder=str(tmp_path / "f")))
    for name, text in (("thesis.txt", "x"), ("jobs.json", "{}")):
        foreign = tmp_path / name.partition(".")[0]
        foreign.mkdir()
        (foreign / name).write_text(text)
        with pytest.raises(UsageError, match="not a folder of jobs"):
            write(foreign, files)
        assert [path.name for path in foreign.iterdir()] == [name]


def test_the_matrix() -> None:
    words = ("recipes=2.8, ./ours.yaml", "variants=minimal", "recipes=2.9")
    rows = [{"recipe": name, "variant": "minimal"} for name in ("2.8", "./ours.yaml", "2.9")]
    assert matrix_of(words) == (rows, (Proof(),))
    rows, proofs = matrix_of(("recipes=2.8", "oneapi=/opt/a,/opt/b", "drivers=lts,new", "gpus=max1550:1"))
    assert rows == [{"recipe": "2.8", "oneapi_root": Path(root)} for root in ("/opt/a", "/opt/b")]
    assert proofs == (Proof("lts", "max1550:1"), Proof("new", "max1550:1"))
    assert matrix_of(("recipes=2.8", "nodes=1,2"))[1] == (Proof(), Proof(nodes="2"))


def test_one_build_is_proved_on_each_driver() -> None:
    asked = replace(request(), proofs=(Proof("lts", "max1550:1"), Proof("new")))
    build, *proofs = (job for job in jobs_of(asked) if job.kind in ("build", "verify"))
    assert [(job.id, job.needs) for job in proofs] == [
        ("2.8-lts-max1550_1", (build.name,)), ("2.8-new", (build.name,)),
    ]  # fmt: skip
    texts = files_of(asked)
    first, second = (directives(texts[f"jobs/{job.name}.sh"]) for job in proofs)
    assert {"--gres=gpu:max1550:1", "--constraint=lts", "--constraint=max"} <= {*first}
    assert {"--gres=gpu:1", "--constraint=new"} <= {*second}
    assert "driver=lts\n" in texts[f"jobs/{proofs[0].name}.sh"]
    # A site that has its own word for a driver says so, or loads a module.
    for nodes in (
        Nodes(directives=("--constraint=max&{driver}",)),
        Nodes(setup=("module load gpu/$driver",)),
    ):
        text = files_of(replace(asked, nodes={"verify": nodes}))[f"jobs/{proofs[1].name}.sh"]
        assert "--constraint=new" not in directives(text)
        assert "--constraint=max&new" in directives(text) or "module load gpu/$driver" in text
    pbs = files_of(replace(request("pbs"), proofs=(Proof("lts"),)))
    assert "-l select=1:ngpus=1:driver=lts" in directives(script(pbs, "verify"))


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_a_proof_over_several_nodes(scheduler: Scheduler) -> None:
    asked = replace(request(scheduler), proofs=(Proof("lts"), Proof("lts", nodes="4")))
    files, jobs = files_of(asked), [job for job in jobs_of(asked) if job.kind == "verify"]
    one, four = (files[f"jobs/{job.name}.sh"] for job in jobs)
    assert [job.id for job in jobs] == ["2.8-lts", "2.8-lts-4nodes"]
    many = {"slurm": "--nodes=4 --ntasks-per-node=1", "pbs": "-l select=4:ngpus=1:driver=lts"}[scheduler]
    assert many in directives(four)
    assert many.replace("=4", "=1", 1) in directives(one)
    assert "--device xpu --suite distributed --nodes 4 --output" in four.replace(" \\\n ", "")
    assert "--suite" not in one


def test_several_nodes_work_in_a_folder_that_all_see(tmp_path: Path) -> None:
    def place(nodes: str) -> str:
        script = (
            f'folder=$1 job=a-b kind=verify nodes={nodes}; . {fixed_script("job")}; work_in x; echo "$place"'
        )
        script = f"local_disk() {{ printf %s {tmp_path}/own; }}; {script}"
        words = ["bash", "-c", script, "_", str(tmp_path / "all")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    assert place("1") == f"{tmp_path}/own/xb-{os.getuid()}-x"
    assert place("2") == f"{tmp_path}/all/builds/x"


@pytest.mark.parametrize(
    "words",
    [
        ("a", "b"),
        ("a", "recipes=2.8"),
        ("variants=full",),
        ("recipes=",),
        ("recipes=2.8", "drivers=a b"),
        ("recipes=2.8", "nodes=0"),
        ("recipes=2.8", "nodes=two"),
    ],
)
def test_a_matrix_that_says_too_much_or_too_little(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--matrix cannot be used"):
        matrix_of(words)


def test_a_long_temporary_folder_is_replaced(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    job = fixed_script("job")
    script = f'folder={tmp_path} job=a-b kind=build; . {job}; short_temporary "$1" && echo "$TMPDIR"'
    done = subprocess.run(["bash", "-c", script, "_", str(long)], capture_output=True, text=True, check=True)
    found = Path(done.stdout.strip())
    assert len(f"{found}/multiprocessing-socket-of-some-name") < 107
    found.rmdir()
