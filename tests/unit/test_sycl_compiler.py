"""The stand-in driver's table of options, with the command lines of PyTorch 2.6 and of its oneDNN."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sycl_compiler.driver import Toolkit
from support.sycl_compiler.frontend import Image
from support.sycl_compiler.options import UsageError, divide, ignored, is_sycl, plain
from support.sycl_compiler.registration import Linked, source

#: As torch-xpu-ops of 2.6 writes them (cmake/BuildFlags.cmake, run_sycl.cmake), with fewer folders.
_FLAGS = (
    "-fsycl", "-fsycl-targets=spir64_gen,spir64", "-fno-sycl-unnamed-lambda", "-sycl-std=2020",
    "-fhonor-nans", "-fhonor-infinities", "-fno-associative-math", "-fno-approx-func", "-Wno-absolute-value",
    "-no-ftz",
    "-D__INTEL_PREVIEW_BREAKING_CHANGES", "-D_GLIBCXX_USE_CXX11_ABI=1", "-fsycl-fp64-conv-emu",
)  # fmt: skip
_COMPILE = (
    "-MD", "-MF", "/b/Abs.cpp.o.SYCL-depend", "-c", "/s/Abs.cpp", "-o", "/b/Abs.cpp.o", "-I/s/aten",
    "-fsycl-host-compiler=/usr/bin/c++", "-fsycl-host-compiler-options=-I/s/aten -O2 -fPIC -DNAME=\\\"x\\\" ",
    *_FLAGS, "-DUSE_XPU",
)  # fmt: skip


def test_a_kernel_file_of_pytorch() -> None:
    options = divide(_COMPILE)
    assert (options.sources, options.output) == ([Path("/s/Abs.cpp")], Path("/b/Abs.cpp.o"))
    assert options.compile_only
    assert options.header_list == Path("/b/Abs.cpp.o.SYCL-depend")
    assert options.targets == ("spir64_gen", "spir64")
    for word in ("-fhonor-nans", "-fno-approx-func", "-I/s/aten", "-DUSE_XPU"):
        assert word in options.device
    preview = "-D__INTEL_PREVIEW_BREAKING_CHANGES"
    assert not {"-no-ftz", "-sycl-std=2020", "-O2", preview} & set(options.device)
    host = options.for_host
    assert host[:4] == ["-I/s/aten", "-O2", "-fPIC", '-DNAME="x"']
    assert "-DUSE_XPU" in host, "what preprocesses is for both"
    assert preview not in host


def test_its_device_link() -> None:
    aot = "-device pvc -options ' -cl-poison-unsupported-fp64-kernels -cl-intel-enable-auto-large-GRF-mode'"
    link = ("-fsycl-max-parallel-link-jobs=1", "-fsycl-link", "a.o", "b.o", "-Xs", aot, "-o", "d.o")
    options = divide(("-fPIC", *_FLAGS, *link))
    assert options.device_link
    assert options.link == ["a.o", "b.o"]
    assert options.link_jobs == 1
    assert options.backend[:3] == ["-device", "pvc", "-options"]
    assert options.backend[3].split()[-1] == "-cl-intel-enable-auto-large-GRF-mode"


def test_the_spaces_that_cmake_escapes_divide_words_all_the_same() -> None:
    options = divide(("-fsycl", "-fsycl-link", "-Xs", r"-device\ pvc\ -options\ '\ -cl-one\ -cl-two'", "a.o"))
    assert [*options.backend[:3], *options.backend[3].split()] == [
        "-device", "pvc", "-options", "-cl-one", "-cl-two",
    ]  # fmt: skip


def test_without_fsycl_it_is_gcc_whatever_onednn_makes_of_the_word() -> None:
    """oneDNN asks for OpenMP by replacing -fsycl with -fno-sycl, in -fsycl-host-compiler as well."""
    replaced = ("-fno-sycl", "-fno-sycl-host-compiler=g++", "-fno-sycl-host-compiler-options=-fopenmp")
    line = (*replaced, "-fopenmp", "a.c")
    assert not is_sycl(line)
    assert plain(line) == ["-fopenmp", "a.c"]


def test_an_option_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="-qmkl"):
        divide(("-fsycl", "-qmkl", "a.cpp"))


def test_it_says_what_it_is_and_what_it_ignores() -> None:
    settings = {"without": ("spir64_gen",), "host": ("-O0",), "no_kernels": ("/onednn/",)}
    said = Toolkit(Path("/none"), release="2026.2.0", **settings).describe()
    assert said.startswith("Intel(R) oneAPI DPC++/C++ Compiler 2026.2.0 (stand-in driver)\n")
    assert all(option in said for option in ignored())
    assert "no images are made for spir64_gen" in said
    assert "passed to the host: -O0" in said
    assert "no device pass for /onednn/" in said


def test_what_ccache_asks_first_is_preprocessed_for_the_host() -> None:
    options = divide(("-fsycl", "-DX", "-E", "/s/a.cpp"))
    assert options.preprocess_only
    assert options.for_host == ["-DX"]


def test_more_images_than_a_registration_can_have_are_registered_in_parts() -> None:
    image = Linked("spir64", Path("a.spv"), Image(b"", ("kernel",), {}))
    text = source([image] * 0x1_0001, 3)
    assert "{ 1, 65535, images + 0, 0, 0 }, { 1, 2, images + 65535, 0, 0 }" in text
    assert "{ 1, 0, images + 0, 0, 0 }" in source([], 3)
