"""The command: files, notebooks, texts, exit codes, documents, baseline."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.cli import Xpubuild

PROGRAM = "import torch\r\nx = torch.ones(1).cuda()  # größer\r\n"
LEFT = "import torch\ntorch.cuda.memory_summary()\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_prints_the_difference_and_changes_nothing(xpubuild: Xpubuild, here: Path) -> None:
    (here / "a.py").write_bytes(PROGRAM.encode())
    result = xpubuild("migrate", "a.py", "--to", "xpu")
    assert result.status == 0
    assert "--- a/a.py\n+++ b/a.py\n" in result.out
    assert '+x = torch.ones(1).to("xpu")  # größer' in result.out
    assert (here / "a.py").read_bytes() == PROGRAM.encode()
    assert xpubuild("migrate", "a.py", "--check").status == 80


def test_write_keeps_ends_of_lines_encoding_and_rights(xpubuild: Xpubuild, here: Path) -> None:
    file = here / "a.py"
    file.write_bytes(b"# coding: latin-1\r\n" + PROGRAM.encode("latin-1"))
    file.chmod(0o755)
    assert xpubuild("migrate", "a.py", "--to", "xpu", "--write").status == 0
    expected = PROGRAM.replace(".cuda()", '.to("xpu")').encode("latin-1")
    assert file.read_bytes() == b"# coding: latin-1\r\n" + expected
    assert file.stat().st_mode & 0o777 == 0o755
    assert xpubuild("migrate", "a.py", "--to", "xpu", "--check").status == 0


def test_findings_end_with_80_and_carry_line_reason_and_source(xpubuild: Xpubuild, here: Path) -> None:
    (here / "a.py").write_text(LEFT)
    result = xpubuild("migrate", ".", "--json")
    assert result.status == 80
    (finding,) = json.loads(result.out)["findings"]
    assert (finding["path"], finding["line"], finding["text"]) == ("a.py", 2, "torch.cuda.memory_summary()")
    assert finding["reason"].startswith("torch.cuda.memory_summary has no counterpart in torch ")
    assert finding["source"].startswith("https://")


def test_a_baseline_accepts_what_is_there_and_reports_what_is_new(xpubuild: Xpubuild, here: Path) -> None:
    (here / "a.py").write_text(LEFT)
    options = ("migrate", ".", "--baseline", "known.json")
    assert xpubuild(*options, "--update-baseline").status == 0
    (here / "a.py").write_text("\n\n" + LEFT)
    assert xpubuild(*options).status == 0
    (here / "b.py").write_text(LEFT)
    result = xpubuild(*options, "--json")
    assert result.status == 80
    assert [item["path"] for item in json.loads(result.out)["findings"]] == ["b.py"]
    (here / "known.json").write_text("[]")
    assert xpubuild(*options).status == 20


def test_patch_and_sarif_are_written(xpubuild: Xpubuild, here: Path) -> None:
    (here / "a.py").write_text(LEFT + "x = y.cuda()")
    assert xpubuild("migrate", "a.py", "--patch", "a.patch", "--sarif", "a.sarif").status == 80
    patch = (here / "a.patch").read_text()
    assert "+x = y.to(ACCELERATOR)\n\\ No newline at end of file\n" in patch
    (run,) = json.loads((here / "a.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("no-counterpart", "warning")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 2}


def test_a_file_that_does_not_parse_is_named_and_left(xpubuild: Xpubuild, here: Path) -> None:
    (here / "a.py").write_text("import torch\nprint torch.cuda\n")
    (here / "b.py").write_bytes(b"x = '\xff'\n")
    (here / "c.ipynb").write_text("{}")
    result = xpubuild("migrate", ".", "--json", "--write")
    document = json.loads(result.out)
    assert result.status == 80
    assert [(item["path"], item["state"]) for item in document["files"]] == [
        (name, "not parsed") for name in ("a.py", "b.py", "c.ipynb")
    ]
    assert {item["id"] for item in document["findings"]} == {"not-parsed"}


def test_what_is_asked_wrongly_is_refused(xpubuild: Xpubuild, here: Path) -> None:
    assert xpubuild("migrate").status == 2
    assert xpubuild("migrate", "missing.py").status == 2
    assert xpubuild("migrate", ".", "--update-baseline").status == 2
    assert xpubuild("migrate", ".", "--torch", "2.5").status == 22
    (here / "a.py").write_text("x.cuda()\n")
    assert xpubuild("migrate", "a.py", "--baseline", "missing.json").status == 2
    assert xpubuild("migrate", "a.py", "--write", "--prove", "--", "python", "a.py").status == 2
    assert xpubuild("migrate", ".", "a.py", "--quiet", "--patch", "p").status == 0
    assert (here / "p").read_text().count("--- a/a.py") == 1


def test_a_notebook_is_one_program_whose_outputs_and_magic_stay(xpubuild: Xpubuild, here: Path) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["use cuda"]},
        {"cell_type": "code", "source": ["%pip install torch\n", "from torch import cuda"], "outputs": [1]},
        {"cell_type": "code", "source": ["if cuda.is_available():\n", "    !ls\n", "    x = x.cuda()"]},
        {"cell_type": "code", "source": ["%%bash\n", "nvcc"]},
    ]
    (here / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}, indent=1) + "\n")
    assert xpubuild("migrate", "a.ipynb", "--to", "xpu", "--write").status == 0
    text = (here / "a.ipynb").read_text()
    after = json.loads(text)["cells"]
    assert after[1]["source"] == ["%pip install torch\n", "import torch"]
    assert after[2]["source"] == ["if torch.xpu.is_available():\n", "    !ls\n", '    x = x.to("xpu")']
    assert (after[0], after[1]["outputs"], after[3]) == (cells[0], [1], cells[3])
    assert text.startswith('{\n "cells": [\n')


VISIBLE = [
    ("run.sh", "export CUDA_VISIBLE_DEVICES=0,1\n", "export CUDA_VISIBLE_DEVICES=0,1 ZE_AFFINITY_MASK=0,1\n"),
    ("job.slurm", "CUDA_VISIBLE_DEVICES=$i python a.py\n",
     "CUDA_VISIBLE_DEVICES=$i ZE_AFFINITY_MASK=$i python a.py\n"),
    ("a.yaml", "env:\n  CUDA_VISIBLE_DEVICES: '0'\n",
     "env:\n  CUDA_VISIBLE_DEVICES: '0'\n  ZE_AFFINITY_MASK: '0'\n"),
    ("Dockerfile", "ENV CUDA_VISIBLE_DEVICES=0\n", "ENV CUDA_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=0\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "both"), VISIBLE)
def test_the_variable_that_chooses_gpus(
    xpubuild: Xpubuild, here: Path, name: str, before: str, both: str
) -> None:
    xpu = before.replace("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
    for to, expected in (("accelerator", both), ("xpu", xpu)):
        (here / name).write_text(before)
        assert xpubuild("migrate", ".", "--to", to, "--write").status == 0
        assert (here / name).read_text() == expected
        assert xpubuild("migrate", ".", "--to", to, "--check").status == 0


def test_what_is_for_nvidia_in_scripts_and_values_is_reported(xpubuild: Xpubuild, here: Path) -> None:
    (here / "run.sh").write_text("nvidia-smi\n# nvidia-smi\n")
    (here / "requirements.txt").write_text("flash-attn==2\ntorch\n")
    (here / "Dockerfile").write_text("FROM nvidia/cuda:12\n")
    (here / "a.yaml").write_text("device: cuda\n")
    (here / "b.yaml").write_text("distributed_type: MULTI_GPU\nipex_config:\n  ipex: true\n")
    found = json.loads(xpubuild("migrate", ".", "--json").out)["findings"]
    names = sorted({item["id"] for item in found})
    assert names == ["accelerate", "image", "ipex", "nvidia-smi", "package"]
    found = json.loads(xpubuild("migrate", ".", "--json", "--values").out)["findings"]
    assert "value" in {item["id"] for item in found}
    assert xpubuild("migrate", "a.yaml", "--to", "xpu", "--values", "--write").status == 0
    assert (here / "a.yaml").read_text() == "device: xpu\n"


@pytest.mark.parametrize("to", ["accelerator", "xpu"])
def test_programs_of_eight_kinds_need_no_manual_edit(xpubuild: Xpubuild, here: Path, to: str) -> None:
    shutil.copytree(Path(__file__).parents[1] / "data" / "migrate", here / "programs")
    document = json.loads(xpubuild("migrate", ".", "--to", to, "--write", "--json").out)
    assert len(document["files"]) == 8
    assert document["findings"] == []
    for file in (here / "programs").iterdir():
        assert not re.search(r"torch\.cuda|\.cuda\(|[\"']cuda[:\"'](?!\)$)", file.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("name", "before", "after"), [
    ("c.toml", 'CUDA_VISIBLE_DEVICES = "0"\n', 'CUDA_VISIBLE_DEVICES = "0"\nZE_AFFINITY_MASK = "0"\n'),
    ("c.yaml", "  - CUDA_VISIBLE_DEVICES=0\n", "  - CUDA_VISIBLE_DEVICES=0\n  - ZE_AFFINITY_MASK=0\n"),
    ("c.yaml", "- CUDA_VISIBLE_DEVICES=0 ./a\n", "- CUDA_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=0 ./a\n"),
    ("Dockerfile", "ENV CUDA_VISIBLE_DEVICES 0\n", "ENV CUDA_VISIBLE_DEVICES 0\nENV ZE_AFFINITY_MASK 0\n"),
    ("a.sh", 'A=1 CUDA_VISIBLE_DEVICES="$B" ./a\n',
     'A=1 CUDA_VISIBLE_DEVICES="$B" ZE_AFFINITY_MASK="$B" ./a\n'),
    ("a.sh", 'if [ "$CUDA_VISIBLE_DEVICES" = 0 ]; then echo "CUDA_VISIBLE_DEVICES=0"; fi\n', ""),
    *(("a.sh", f"{line}\n", None) for line in (
        "CUDA_VISIBLE_DEVICES=$(seq -s, 0 3) ./a", 'CUDA_VISIBLE_DEVICES=${A:-"0,1"} ./a',
        "CUDA_VISIBLE_DEVICES=`seq 0 3` ./a", "docker run -e CUDA_VISIBLE_DEVICES=0 image",
        "sbatch --export=ALL,CUDA_VISIBLE_DEVICES=0 job", "mpirun -x CUDA_VISIBLE_DEVICES=0 ./a",
        "export CUDA_VISIBLE_DEVICES",
    )),
    ("c.yaml", "- name: CUDA_VISIBLE_DEVICES\n  value: '0'\n", None),
])  # fmt: skip
def test_a_second_variable_stands_only_where_a_shell_or_a_file_takes_it(
    xpubuild: Xpubuild, here: Path, name: str, before: str, after: str | None
) -> None:
    (here / name).write_text(before)
    for _ in range(2):
        document = json.loads(xpubuild("migrate", name, "--write", "--json").out)
        assert (here / name).read_text() == (after or before)
        assert [item["id"] for item in document["findings"]] == ["visible-devices"] * (after is None)


def test_a_notebook_with_magic_is_rewritten_and_its_findings_have_lines_of_the_file(
    xpubuild: Xpubuild, here: Path
) -> None:
    sources = [
        "import torch\n", "# precision\nfrom torch.cuda import amp\n", "%%time\nx = torch.ones(1).cuda()",
        "a = !ls\ntorch.ones?\nb = (5\n  % 2)\namp.autocast()\ntorch.cuda.nvtx.mark('a')",
    ]  # fmt: skip
    cells = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in sources]
    (here / "a.ipynb").write_text(json.dumps({"cells": cells}, indent=1) + "\n")
    (finding,) = json.loads(xpubuild("migrate", "a.ipynb", "--json").out)["findings"]
    assert "nvtx.mark" in (here / "a.ipynb").read_text().splitlines()[finding["line"] - 1]
    assert xpubuild("migrate", "a.ipynb", "--write").status == 80
    after = ["".join(cell["source"]) for cell in json.loads((here / "a.ipynb").read_text())["cells"]]
    assert after[1:] == [
        "", "%%time\nx = torch.ones(1).to(ACCELERATOR)",
        sources[3].replace("amp.autocast()", "torch.amp.autocast(ACCELERATOR)"),
    ]  # fmt: skip


def test_findings_of_one_reason_are_listed_together_with_its_page(xpubuild: Xpubuild, here: Path) -> None:
    (here / "a.py").write_text("import torch\ntorch.cuda.nvtx.mark('a')\ntorch.cuda.nvtx.mark('b')\n")
    text = xpubuild("migrate", "a.py").out
    assert text.count("NVTX marks ranges") == text.count("https://") == 1
    assert re.search(r"a\.py:2: +torch\.cuda\.nvtx\.mark\('a'\)\na\.py:3: ", text)


def test_git_takes_the_patch_of_files_in_any_encoding(xpubuild: Xpubuild, here: Path) -> None:
    before = {
        "bom.py": b"\xef\xbb\xbfx.cuda()\n", "latin.py": b"# coding: latin-1\nx.cuda()  # \xe9\n",
        "ends.py": b"x.cuda()\r\ny = 1",
    }  # fmt: skip
    for name, data in before.items():
        (here / name).write_bytes(data)
    assert xpubuild("migrate", *before, "--to", "xpu", "--patch", "p").status == 0
    subprocess.run(("git", "apply", "p"), cwd=here, check=True)
    for name, data in before.items():
        assert (here / name).read_bytes() == data.replace(b"cuda()", b'to("xpu")')


@pytest.mark.parametrize(("text", "name"), [
    ("if 'CUDA out of memory' in str(error): print('CUDA out of memory')", "message"),
    ("os.system('CUDA_VISIBLE_DEVICES=0 python a.py')", "visible-devices"),
    ("from torch.cuda import *", "as-a-value"),
])  # fmt: skip
def test_what_is_for_cuda_in_texts_and_by_a_star_is_a_finding(
    xpubuild: Xpubuild, here: Path, text: str, name: str
) -> None:
    (here / "a.py").write_text(f"{text}\n")
    found = json.loads(xpubuild("migrate", "a.py", "--json").out)["findings"]
    assert [item["id"] for item in found] == [name]
