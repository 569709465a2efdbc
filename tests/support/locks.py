"""A lock for tests that has something of everything."""

from __future__ import annotations

import hashlib
from typing import Any

from xpubuild.install import lock_model as model


def oid(seed: object) -> str:
    """Return an object id that nothing has."""
    return hashlib.sha1(repr(seed).encode(), usedforsecurity=False).hexdigest()


def sha(seed: object) -> str:
    """Return a sha256 of nothing in particular."""
    return hashlib.sha256(repr(seed).encode()).hexdigest()


def submodule(path: str) -> model.Submodule:
    return model.Submodule(
        path=path,
        url=f"https://github.com/someone/{path.rpartition('/')[2]}.git",
        commit=oid(("commit", path)),
        tree=oid(("tree", path)),
    )


def repository() -> model.Repository:
    return model.Repository(
        url="https://github.com/pytorch/pytorch.git",
        ref="v2.8.0",
        commit=oid("torch"),
        tree=oid("torch tree"),
        submodules=tuple(map(submodule, ("third_party/fmt", "third_party/kineto", "third_party/kineto/fmt"))),
        configure_time=(
            model.ConfigureTime(
                url="https://github.com/uxlfoundation/oneDNN",
                path="build/xpu_mkldnn_proj",
                asked_for="v3.8.1",
                commit=oid("onednn"),
                tree=oid("onednn tree"),
                submodules=(),
            ),
            model.ConfigureTime(
                url="https://github.com/intel/torch-xpu-ops.git",
                path="third_party/torch-xpu-ops",
                asked_for=oid("ops"),
                commit=oid("ops"),
                tree=oid("ops tree"),
                submodules=(submodule("third_party/inner"),),
            ),
        ),
    )


def machine() -> model.Machine:
    return model.Machine(
        architecture="x86_64",
        glibc="2.36",
        python="3.11.2",
        compilers={
            "cc": model.Compiler(kind="gcc", version="13.2.0", target="x86_64-linux-gnu"),
            "cxx": model.Compiler(kind="gcc", version="13.2.0", target="x86_64-linux-gnu"),
        },
        drivers=model.Drivers(
            family="lts2-2523",
            packages={"libze-intel-gpu1": "25.18.33578.15-1146~22.04", "intel-opencl-icd": "25.18.33578.15"},
        ),
        oneapi=model.Oneapi(
            components={"compiler": "2025.1", "pti": "0.11"},
            environment=model.Environment(
                set={"CMPLR_ROOT": "{oneapi}/compiler/2025.1", "EMPTY": "", "ODD": 'a "b"\n\u00e9\U0001f600'},
                unset=("A", "B"),
                paths={
                    "PATH": {
                        "prepend": ("{oneapi}/compiler/2025.1/bin", "{oneapi}/pti/0.11/bin"),
                        "append": ("/x",),
                        "remove": (),
                    }
                },
            ),
        ),
    )  # fmt: skip


def example(**changes: Any) -> model.Lock:
    """Return a lock with something of everything."""
    whole: dict[str, Any] = {
        "recipe": model.RecipePart(
            name="2.8", digest=sha("recipe"), parts={"needs": "0" * 12, "components.torch": "123456789012"}
        ),
        "plan": sha("plan"),
        "options": model.Options(
            target="xpu",
            variant=None,
            arch=("pvc", "bmg"),
            cxx11_abi=1,
            components=("torch", "ops", "triton"),
            env="conda",
            python=model.PythonChoice(version="3.11", range=">=3.10,<3.15"),
            flags={"torch": {"USE_XPU": "{xpu}", "BLAS": "MKL", "url": "yes"}, "ops": {}, "x": {"A": ""}},
        ),
        "repositories": {
            "torch": repository(),
            "ops": model.Repository(
                embedded="ops",
                ref=None,
                commit=oid("own ops"),
                tree=oid("own tree"),
                submodules=(),
                configure_time=(),
            ),
        },
        "python": model.Python(
            requirements={
                "requirements/build.txt": model.RequirementFile(
                    sha256=sha("build.txt"),
                    pins=(
                        model.Requirement(
                            name="cmake", version="3.31", hashes=(f"sha256:{sha(3)}", f"sha256:{sha(1)}")
                        ),
                        model.Requirement(
                            name="filelock",
                            version="4.1.0",
                            marker='python_version < "3.11"',
                            hashes=(f"sha256:{sha(0)}",),
                        ),
                        model.Requirement(
                            name="filelock",
                            version="4.2.11",
                            marker='python_version >= "3.11"',
                            hashes=(f"sha256:{sha(2)}",),
                        ),
                    ),
                )
            },
            wheels=(
                model.Wheel(component="torch", dist="torch", version="2.8.0", hashes=(f"sha256:{sha(4)}",)),
                model.Wheel(component="triton", dist="pytorch-triton-xpu", version="3.4.0", hashes=None),
            ),
        ),
        "conda": model.Conda(
            packages=(
                model.CondaPackage(
                    manager="conda",
                    name="cmake",
                    version="3.31.6",
                    channel="conda-forge",
                    file="linux-64/cmake-3.31.6-h_0.conda",
                    md5="0" * 32,
                    sha256=sha("cmake"),
                ),
                model.CondaPackage(
                    manager="pip",
                    name="cmake",
                    version="4",
                    channel=None,
                    file="cmake-4.whl",
                    md5=None,
                    sha256=sha("cmake 4"),
                ),
            )
        ),
        "archives": (
            model.Archive(
                component="triton", name="llvm", url="https://host.example/llvm-e12cbd83.tar.gz",
                sha256=sha("llvm"), size=12345, hash_from="first download",
            ),
        ),
        "machine": machine(),
    }  # fmt: skip
    return model.Lock(**{**whole, **changes})
