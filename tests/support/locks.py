"""Locks for tests: one that has something of everything, and a strategy that makes any other."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import strategies as st

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
                    "PATH": model.PathChange(
                        prepend=("{oneapi}/compiler/2025.1/bin", "{oneapi}/pti/0.11/bin"),
                        append=("/x",),
                        remove=(),
                    )
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


# What YAML readers take for something else than a text, and what they stumble over.
_TRAPS = (
    "null", "~", "yes", "No", "on", "true", "1", "0x10", "0o7", "1e5", "12e3456", "1_000", "1.5", ".5", "-1",
    "2001-01-01", "1:30", "=", "<<", "-", "- a", "a: b", "a #b", "#a", "[a]", "{env}", "&a", "*a", "!a", "%a",
    "@a", "`a", "'a'", '"a"', "a\\b", "...", "---", "? a", "| a", "> a", "a:", ":a", "", " a", "a ", "\t",
    "\n", "\r\n", "\x7f", "\x85", "\u2028", "\ufeff", "\u00e9", "\U0001f600", "a\x00b", "\x1b[0m", ".nan",
)  # fmt: skip
texts = st.one_of(st.sampled_from(_TRAPS), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
names = texts.filter(bool)
short = st.text("0123456789abcdef", min_size=12, max_size=12)
oids = st.one_of(
    st.text("0123456789abcdef", min_size=40, max_size=40),
    st.text("0123456789", min_size=40, max_size=40),
    st.from_regex(r"[0-9]{20}e[0-9]{19}", fullmatch=True),
    st.text("0123456789abcdef", min_size=64, max_size=64),
)
sha256s = st.text("0123456789abcdef", min_size=64, max_size=64)
hashes = st.lists(sha256s.map("sha256:{}".format), max_size=3, unique=True).map(sorted).map(tuple)


def _by(values: st.SearchStrategy[Any], key: str) -> st.SearchStrategy[Any]:
    """Return a strategy of tuples in the order of an attribute, each once."""
    found = st.lists(values, max_size=3, unique_by=lambda item: getattr(item, key))
    return found.map(lambda items: tuple(sorted(items, key=lambda item: getattr(item, key))))


submodules = _by(st.builds(model.Submodule, path=names, url=texts, commit=oids, tree=oids), "path")
configure_time = _by(
    st.builds(
        model.ConfigureTime,
        url=names, path=st.none() | names, asked_for=names, commit=oids, tree=oids, submodules=submodules,
    ),
    "key",
)  # fmt: skip
_common: dict[str, Any] = {
    "ref": st.none() | names, "commit": oids, "tree": oids,
    "submodules": submodules, "configure_time": configure_time,
}  # fmt: skip
repositories = st.one_of(
    st.builds(model.Repository, url=texts, embedded=st.none(), **_common),
    st.builds(model.Repository, url=st.none(), embedded=names, **_common),
)
pins = _by(
    st.builds(model.Requirement, name=names, version=names, marker=st.none() | names, hashes=hashes), "key"
)
packages = _by(
    st.builds(
        model.CondaPackage,
        manager=st.sampled_from(["conda", "pip"]), name=names, version=names,
        channel=st.none() | names, file=names, md5=st.none(), sha256=sha256s,
    ),
    "key",
)  # fmt: skip
_tuples = st.lists(texts, max_size=2).map(tuple)
machines = st.builds(
    model.Machine,
    architecture=names, glibc=texts, python=texts,
    compilers=st.dictionaries(
        names, st.builds(model.Compiler, kind=names, version=names, target=names), max_size=2
    ),
    drivers=st.none() | st.builds(
        model.Drivers, family=st.none() | names, packages=st.dictionaries(names, texts, max_size=2)
    ),
    oneapi=st.none() | st.builds(
        model.Oneapi,
        components=st.dictionaries(names, texts, max_size=2),
        environment=st.builds(
            model.Environment,
            set=st.dictionaries(names, texts, max_size=3),
            unset=st.lists(names, max_size=2, unique=True).map(sorted).map(tuple),
            paths=st.dictionaries(
                names,
                st.builds(model.PathChange, prepend=_tuples, append=_tuples, remove=_tuples),
                max_size=2,
            ),
        ),
    ),
)  # fmt: skip
locks = st.builds(
    model.Lock,
    recipe=st.builds(
        model.RecipePart, name=names, digest=sha256s, parts=st.dictionaries(names, short, max_size=3)
    ),
    plan=sha256s,
    options=st.builds(
        model.Options,
        target=st.sampled_from(["xpu", "cpu"]), variant=st.none() | names,
        arch=st.lists(names, max_size=2).map(tuple), cxx11_abi=st.sampled_from([0, 1]),
        components=st.lists(names, max_size=3, unique=True).map(tuple),
        env=st.sampled_from(["venv", "conda"]),
        python=st.builds(model.PythonChoice, version=st.sampled_from(["3.10", "3.14"]), range=texts),
        flags=st.dictionaries(names, st.dictionaries(names, texts, max_size=3), max_size=3),
    ),
    repositories=st.dictionaries(names, repositories, max_size=2),
    python=st.builds(
        model.Python,
        requirements=st.dictionaries(
            names, st.builds(model.RequirementFile, sha256=sha256s, pins=pins), max_size=2
        ),
        wheels=_by(
            st.builds(model.Wheel, component=names, dist=names, version=names, hashes=st.none() | hashes),
            "component",
        ),
    ),
    conda=st.none() | st.builds(model.Conda, packages=packages),
    archives=_by(
        st.builds(
            model.Archive,
            component=names, name=names, url=names, sha256=sha256s, size=st.integers(0, 1 << 40),
            hash_from=st.sampled_from(["upstream", "first download"]),
        ),
        "key",
    ),
    machine=machines,
)  # fmt: skip
