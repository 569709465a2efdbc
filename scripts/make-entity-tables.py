#!/usr/bin/env python3
"""Makes xpubuild/explain/tables/debian.yaml and wheels.yaml: who has a header, a library, a program.

The first comes from the indices of contents of Debian's archive (DebianRepository/Format in its wiki), for
the packages that builds and runs of these projects need. --contents names the files, which apt can fetch
(and so with Contents-all.gz):

    apt-get indextargets --format '$(BASE_URI)' | head -1
    /usr/lib/apt/apt-helper download-file BASE/dists/trixie/main/Contents-amd64.gz Contents-amd64.gz

The second comes from the names in Intel's wheels (python -m pip download --no-deps -d DIR NAME): --wheels.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

TABLES = Path(__file__).resolve().parent.parent / "xpubuild/explain/tables"

BY_HAND = ("names.yaml", "programs-libraries.yaml")
#: The table made by hand that is asked before.
BESIDE = {
    "debian_headers": "headers",
    "debian_libraries": "libraries",
    "debian_link": "link",
    "debian_programs": "programs",
    "debian_configs": "cmake_packages",
    "wheel_libraries": "wheels_by_hand",
}
#: Development packages whose headers, link names and CMake or pkg-config names are wanted.
DEVELOPMENT = """
libze-dev ocl-icd-opencl-dev opencl-c-headers opencl-clhpp-headers libigdgmm-dev libigc-dev libva-dev
libvpl-dev libdrm-dev libpciaccess-dev libhwloc-dev libnuma-dev libtbb-dev libumf-dev libfabric-dev
libibverbs-dev librdmacm-dev libpmix-dev libopenmpi-dev libmpich-dev libucx-dev libmunge-dev
libslurm-dev libpmi2-0-dev libprotobuf-dev libprotoc-dev libabsl-dev libgrpc-dev libonnx-dev
libgflags-dev libgoogle-glog-dev libfmt-dev libspdlog-dev libgtest-dev libgmock-dev libbenchmark-dev
libeigen3-dev libboost-dev nlohmann-json3-dev rapidjson-dev libyaml-cpp-dev libyaml-dev
libflatbuffers-dev libsleef-dev libcpuinfo-dev libpthreadpool-dev libopenblas-dev
libopenblas-pthread-dev libblas-dev liblapack-dev liblapacke-dev libatlas-base-dev libdnnl-dev
libfftw3-dev libmpfr-dev libgmp-dev libmpc-dev libisl-dev python3-dev libpython3.13-dev pybind11-dev
python3-numpy-dev libffi-dev libssl-dev zlib1g-dev libbz2-dev liblzma-dev libzstd-dev liblz4-dev
libsqlite3-dev libreadline-dev libncurses-dev tk-dev uuid-dev libexpat1-dev libxml2-dev
libcurl4-openssl-dev libgdbm-dev libedit-dev libelf-dev libdw-dev libunwind-dev libbfd-dev binutils-dev
libudev-dev libcap-dev libseccomp-dev libsystemd-dev libjpeg62-turbo-dev libturbojpeg0-dev libpng-dev
libwebp-dev libtiff-dev libgif-dev libheif-dev libopenjp2-7-dev libavcodec-dev libavformat-dev
libavutil-dev libavfilter-dev libavdevice-dev libswscale-dev libswresample-dev libsox-dev
libsndfile1-dev libflac-dev libvorbis-dev libogg-dev libmp3lame-dev libopus-dev libasound2-dev
portaudio19-dev libopencv-core-dev libgl-dev libegl-dev libx11-dev libglib2.0-dev libfreetype-dev
libhdf5-dev llvm-19-dev libclang-19-dev libmlir-19-dev liblld-19-dev libllvmspirvlib-19-dev
spirv-headers spirv-tools libopencl-clang-19-dev libomp-19-dev libc6-dev linux-libc-dev libstdc++-14-dev
libgomp1 libceres-dev valgrind ccache libiberty-dev libpfm4-dev libmount-dev libarchive-dev libuv1-dev
libzmq3-dev libevent-dev libjansson-dev libpci-dev libkmod-dev libxshmfence-dev libwayland-dev
libsdl2-dev
"""
#: Run-time packages whose libraries are wanted, by how the package's name begins.
RUN_TIME = re.compile(
    r"lib(?!atomic-queue|avahi|editorconfig|opusenc|oggplay|psm-|unwind-(?:setj|\d)|vorbisidec)"
    r"(?:ze1|ze-intel|igc|igdgmm|opencl|va|vpl|drm|hwloc|numa1|tbb|umf|fabric|ibverbs|rdmacm|openmpi|mpich|"
    r"ucx|pmi|pmix|munge|protobuf|openblas|blas3|lapack|fftw3|gfortran|gomp|omp5|stdc\+\+6|quadmath|atomic|"
    r"ffi|ssl|sqlite3|readline|ncurses|tinfo|uuid|expat|xml2|curl|edit|elf|dw1|unwind|udev|cap2|jpeg|turbojpeg|"
    r"png|webp|tiff|av|sw|sox|sndfile|flac|vorbis|ogg|mp3lame|opus|asound|portaudio|gl1|egl1|x11-6|xext6|sm6|"
    r"ice6|xrender|glib2|freetype|llvm|mlir|llvmspirv|zstd|lz4|lzma|bz2|yaml|gflags|google-glog|fmt|spdlog|"
    r"dnnl|sleef|pciaccess|python3|uv1|zmq5|event|jansson|archive13|seccomp|systemd0|crypt1|nsl|tirpc|psm|"
    r"pthreadpool|cpuinfo)|zlib1g|ocl-icd|intel-(?:opencl|ocloc|igc)"
)
#: Programs that a configure step, a build or an installation of drivers asks for.
PROGRAMS = """
7z autoconf automake autoreconf aclocal bazel bc bison bzip2 ccache clang clang++ clang-format clinfo
cmake cpio curl dkms doxygen dpkg-deb dracut dwarfdump eu-readelf fakeroot ffmpeg file flex g++ gawk gcc
gdb gfortran git git-lfs gpg graphviz dot hostname hwloc-ls lstopo icpc ifconfig ip jq ld.gold ld.lld
less libtool libtoolize lit lld llvm-config lsb_release lshw lsmod lspci lsusb m4 make mkfs mokutil mold
modprobe mpicc mpicxx mpiexec mpirun msgfmt nasm ninja numactl objdump opt openssl patch patchelf perl
pkg-config pip3 podman buildah protoc psql python3 readelf rpm rpm2cpio rsync ruby rustc cargo sccache
sox sphinx-build spirv-as spirv-link spirv-val srun strace strings sudo swig tar tclsh tcsh tmux unzip
update-initramfs vainfo valgrind vim wget which xxd xz yasm zip zstd setpci ocloc
"""
_ROOTS = ("usr/include/", "usr/include/x86_64-linux-gnu/")
#: Folders that pkg-config puts on the path, so that what is in them is included without their name.
_INNER = frozenset(("igdgmm", "libdrm", "libxml2", "glib-2.0", "freetype2", "eigen3", "igc", "libnl3", "vpl"))
_LIBRARY = re.compile(
    r"usr/lib/(?:x86_64-linux-gnu/)?(?:intel-opencl/|openblas-pthread/)?(lib[\w+.-]{1,60}\.so)(\.[\d.]+)?$"
)
_CONFIG = re.compile(
    r"usr/(?:lib|share)/.*?(?:pkgconfig/([\w.+-]+)\.pc|cmake/[^/]+/(\w+?)-?[Cc]onfig\.cmake)$"
)
_MOST_NAMES = 12


def contents(paths: Iterable[Path]) -> Iterator[tuple[str, list[str]]]:
    """Yield file and packages of each line of the indices."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                name, _, packages = line.rstrip().rpartition(" ")
                yield name.strip(), [item.rpartition("/")[2] for item in packages.split(",")]


def header(name: str) -> str | None:
    """Return how a header is named in an include line: a file, or the folder that holds it."""
    root = next((root for root in reversed(_ROOTS) if name.startswith(root)), None)
    if root is None:
        return None
    parts = name[len(root) :].split("/")
    if parts[0] in _INNER and len(parts) > 1:
        parts = parts[1:]
    return parts[0] if len(parts) == 1 else f"{parts[0]}/"


def plain_name(package: str) -> str:
    """Return the name that old and new releases share: t64 came with 64-bit times."""
    return re.sub(r"t64(?=$|-)", "", package)


def read_debian(paths: Iterable[Path]) -> dict[str, dict[str, set[str]]]:
    """Return table -> package -> names."""
    wanted, programs = DEVELOPMENT.split(), set(PROGRAMS.split())
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, packages in contents(paths):
        development = next((item for item in wanted if item in packages), None)
        if development and (included := header(name)):
            found["debian_headers"][development].add(included)
        if development and (config := _CONFIG.search(name)):
            found["debian_configs"][development].add(config[1] or config[2])
        if (library := _LIBRARY.match(name)) is not None:
            _add_library(found, library, packages, development)
        parent, _, base = name.rpartition("/")
        if parent in {"usr/bin", "usr/sbin", "bin", "sbin"} and base in programs:
            found["debian_programs"][min(packages, key=len)].add(base)
    return found


def _add_library(
    found: dict[str, dict[str, set[str]]],
    library: re.Match[str],
    packages: list[str],
    development: str | None,
) -> None:
    number = (library[2] or "").split(".")[1:2]
    run_time = next((item for item in packages if RUN_TIME.match(item) and not item.endswith("-dev")), None)
    if number and run_time:
        found["debian_libraries"][plain_name(run_time)].add(f"{library[1]}.{number[0]}")
    elif not number and development:
        found["debian_link"][development].add(library[1][3:-3])


def read_wheels(folder: Path) -> dict[str, dict[str, set[str]]]:
    """Return table -> project -> libraries, without what stands behind .so and one number."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(folder.glob("*.whl")):
        project = path.name.split("-")[0].replace("_", "-")
        for name in zipfile.ZipFile(path).namelist():
            base = re.match(r"(lib[\w+-]+\.so(?:\.\d+)?)", name.rpartition("/")[2])
            if base:
                found["wheel_libraries"][project].add(base[1])
    return found


def answered(table: str) -> list[re.Pattern[str]]:
    """Return the patterns of the table made by hand, which has the say: its names are not repeated."""
    written = [yaml.safe_load((TABLES / name).read_text("utf-8"))["tables"] for name in BY_HAND]
    found: list[dict[str, str]] = next(
        (tables[BESIDE[table]] for tables in written if BESIDE[table] in tables), []
    )
    return [
        re.compile(row["match"], re.IGNORECASE) for row in found if row["match"] != "." and "line" not in row
    ]


def rows(table: str, found: dict[str, set[str]]) -> Iterator[str]:
    """Yield package and names; a name that several packages have belongs to the first."""
    seen: set[str] = set()
    before = answered(table)
    for package, names in sorted(found.items()):
        own = {name for name in names - seen if not any(item.search(name) for item in before)}
        seen |= own
        if own:
            kept = sorted(own, key=lambda name: (not name.endswith("/"), len(name), name))[:_MOST_NAMES]
            yield f"      {package}: {' '.join(sorted(kept))}"


def main() -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--contents", type=Path, nargs="*", default=[], help="indices, as the archive has them"
    )
    parser.add_argument("--wheels", type=Path, help="a folder with wheels")
    options = parser.parse_args()
    if options.contents:
        write("debian.yaml", "Debian 13's indices of contents", "debian", read_debian(options.contents))
    if options.wheels:
        write("wheels.yaml", "the names in Intel's wheels", "wheel", read_wheels(options.wheels))
    return 0


def write(name: str, source: str, place: str, found: dict[str, dict[str, set[str]]]) -> None:
    """Write one file of indices."""
    lines = [
        f"# Made by scripts/make-entity-tables.py from {source}; change that, then make it again.",
        f"# What the tables made by hand ({', '.join(BY_HAND)}) answer is not repeated.",
        "indices:",
    ]
    for table in sorted(found):
        lines += [f"  {table}:", f"    distribution: {place}", "    packages:", *rows(table, found[table])]
    (TABLES / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
