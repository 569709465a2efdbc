"""The ops extension in a real torch: what the verify suite does not look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integration.torch_env import MKL, OpsSite, TorchEnv


@pytest.fixture(scope="module")
def evaluate(
    torch_env: TorchEnv, ops_site: OpsSite, warm: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Return a function that runs lines of Python which set ``answer``, in the target interpreter."""
    folder = tmp_path_factory.mktemp("evaluate")

    def call(lines: str) -> Any:
        program = folder / "program.py"
        program.write_text(
            "import json, warnings\n"
            "warnings.filterwarnings('ignore', message='Failed to initialize NumPy')\n"
            f"import torch, xpubuild_ops\n{lines}\nprint(json.dumps(answer))\n"
        )
        done = torch_env.run(warm, program, PYTHONPATH=str(ops_site.site))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return call


USES = {
    "swiglu": "swiglu, rand(3, 4), rand(3, 4)",
    "swiglu of views": "swiglu, *rand(3, 8).chunk(2, 1)",
    "swiglu_backward": "swiglu_backward, torch.randn(3, 4), rand(3, 4), rand(3, 4)",
    "mkl_sgemm": "mkl_sgemm, rand(3, 4), rand(4, 5)",
}


@pytest.fixture(scope="module")
def checked(evaluate: Any) -> dict[str, dict[str, str]]:
    """What opcheck says of each use; in one process, as it imports torch's compiler."""
    uses = ", ".join(f"{name!r}: opcheck(ops.{words})" for name, words in USES.items())
    found = evaluate(
        "ops = torch.ops.xpubuild_ops\n"
        "def rand(*shape): return torch.randn(*shape, requires_grad=True)\n"
        "def opcheck(operator, *arguments):\n"
        "    return torch.library.opcheck(operator.default, arguments, raise_exception=False)\n"
        f"answer = {{{uses}}}\n"
        "answer = {use: {test: str(said) for test, said in tests.items()} for use, tests in answer.items()}"
    )
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("use", USES)
def test_operators_keep_the_rules_of_the_dispatcher(checked: dict[str, dict[str, str]], use: str) -> None:
    """opcheck: schema, autograd registration, fake tensors, and a traced graph with dynamic shapes."""
    assert set(checked[use].values()) == {"SUCCESS"}
    assert len(checked[use]) >= 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("xpubuild_ops.swiglu(torch.ones(2), torch.ones(3))", "up has shape [3], but gate has [2]"),
        ("xpubuild_ops.swiglu(torch.ones(2), torch.ones(2).double())", "up is Double, but gate is Float"),
        ("xpubuild_ops.swiglu(torch.ones(2).long(), torch.ones(2).long())", "not implemented for 'Long'"),
        ("xpubuild_ops.mkl_sgemm(torch.ones(2, 3), torch.ones(2, 3))", "cannot be multiplied"),
        ("xpubuild_ops.mkl_sgemm(torch.ones(2, 3).double(), torch.ones(3, 2).double())", "takes float32"),
        ("xpubuild_ops.mkl_sgemm(torch.ones(3), torch.ones(3))", "takes two matrices"),
    ],
)
def test_wrong_arguments_are_python_errors(evaluate: Any, call: str, message: str) -> None:
    answer = evaluate(
        f"try:\n    {call}; answer = 'no error'\nexcept RuntimeError as error: answer = str(error)"
    )
    assert message in answer


def test_build_info_names_this_environment(evaluate: Any, torch_env: TorchEnv) -> None:
    answer = evaluate("answer = {**xpubuild_ops.build_info(), 'own': torch.__config__.show()}")
    assert answer["cxx11_abi"] == 1
    assert answer["xpu"] is False
    assert answer["torch"] == "2.13.0+cpu"
    assert f"Version {MKL.rpartition('.')[0]}" in answer["mkl"]
    # Two MKLs in one process, each with its own version: ours is not torch's under another name.
    assert "Math Kernel Library Version" in answer["own"]
    assert answer["mkl"] not in answer["own"]


def test_one_openmp_runtime_and_torchs_thread_count(evaluate: Any) -> None:
    """The kernels run in torch's pool: no second OpenMP library, and set_num_threads holds for them."""
    answer = evaluate(
        "import os\n"
        "def threads(): return len(os.listdir('/proc/self/task'))\n"
        "torch.set_num_threads(1); before = threads()\n"
        "x = torch.randn(2048, 2048)\n"
        "def work(): xpubuild_ops.swiglu(x, x); xpubuild_ops.mkl_sgemm(x, x); return threads()\n"
        "single = work(); torch.set_num_threads(2); double = work()\n"
        "maps = {line.split()[-1] for line in open('/proc/self/maps') if 'omp' in line.rpartition('/')[2]}\n"
        "answer = [single - before, double - before, sorted(maps)]"
    )
    assert answer[0] == 0
    assert answer[1] == 1
    assert len(answer[2]) == 1, answer[2]


def test_many_dimensions_and_reversed_strides(evaluate: Any) -> None:
    answer = evaluate(
        "x = torch.randn(2, 3, 2, 3, 2, 3, 2).double()\n"
        "views = [x, x.permute(6, 1, 4, 3, 0, 5, 2), x[:, ::2, :, 1:, :, ::2], x[:, :1].expand(x.shape)]\n"
        "silu = torch.nn.functional.silu\n"
        "answer = [bool(torch.allclose(xpubuild_ops.swiglu(v, v + 1), silu(v) * (v + 1))) for v in views]"
    )
    assert answer == [True] * 4


def test_special_values_are_those_of_silu(evaluate: Any) -> None:
    answer = evaluate(
        "x = torch.tensor([float('inf'), -float('inf'), float('nan'), 1e30, -1e30, 0.0, -80.0])\n"
        "left, right = xpubuild_ops.swiglu(x, torch.ones(7)), torch.nn.functional.silu(x)\n"
        "answer = bool(torch.allclose(left, right, equal_nan=True))"
    )
    assert answer is True
