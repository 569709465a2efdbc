"""The stand-in driver: device pass, host pass, device link, link."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from . import registration
from .frontend import FrontEndError, Image, compile_device
from .options import Options, UsageError, divide, ignored, is_sycl, plain

#: The section of an object in which its device images wait for the device link. It is left out of what the
#: object is linked into.
_SECTION = ".sycl_images"
# libsycl.so.9 came with 2026.0.
_FIRST_WITH_VERSION_3 = 9
#: A source that says so. Others may include it through their headers, which the host pass shows.
_INCLUDES_SYCL = re.compile(r"^\s*#\s*include\s.*sycl", re.MULTILINE)
_LANGUAGE = "-DSYCL_LANGUAGE_VERSION=202012L"


@dataclass(frozen=True)
class Toolkit:
    """A folder with what intel-sycl-rt has in ``lib`` and ``include``, and how the stand-in is to use it."""

    root: Path
    #: Options of the device pass that nobody passes, such as -fsycl-device-code-split=per_kernel.
    device: tuple[str, ...] = ()
    #: Options that end every compilation of host code, such as -O0 for a build that is to be quick.
    host: tuple[str, ...] = ()
    #: Targets of the command line for which no images are made.
    without: tuple[str, ...] = ()
    #: Parts of the paths of sources that have no kernels: no device pass.
    no_kernels: tuple[str, ...] = ()
    #: Where images that were compiled ahead of time are kept, for a link that is repeated.
    kept: str | None = None
    #: The release, where no package says it.
    release: str = ""

    @property
    def front_end(self) -> Path:
        """The library with Intel's front end."""
        return self.root / "lib" / "libsycl-jit.so"

    @property
    def includes(self) -> list[str]:
        """The options for the headers of SYCL."""
        include = self.root / "include"
        return ["-isystem", str(include), "-isystem", str(include / "sycl")]

    @property
    def descriptor(self) -> int:
        """The version of the descriptors that its libsycl wants."""
        name = next((self.root / "lib").glob("libsycl.so.[0-9]*")).name
        return 3 if int(name.split(".")[2]) >= _FIRST_WITH_VERSION_3 else 1

    @property
    def version(self) -> str:
        """The release, from the name of the installed package."""
        if self.release:
            return self.release
        info = next(self.root.glob("lib/python3*/site-packages/intel_sycl_rt-*.dist-info"))
        return info.name.removesuffix(".dist-info").partition("-")[2]

    @property
    def macro(self) -> str:
        """The definition by which CMake knows the compiler."""
        year, minor, patch = map(int, self.version.split(".")[:3])
        return f"-D__INTEL_LLVM_COMPILER={year}{minor:02}{patch:02}"

    def describe(self) -> str:
        """What ``--version`` says."""
        rest = [f"Intel's front end (libsycl-jit) with a stand-in driver; it ignores {' '.join(ignored())}"]
        rest += [f"always passed to the device: {' '.join(self.device)}"] if self.device else []
        rest += [f"always passed to the host: {' '.join(self.host)}"] if self.host else []
        rest += [f"no device pass for {' '.join(self.no_kernels)}"] if self.no_kernels else []
        rest += [f"no images are made for {' '.join(self.without)}"] if self.without else []
        head = f"Intel(R) oneAPI DPC++/C++ Compiler {self.version} (stand-in driver)"
        return "\n".join((head, "Target: x86_64-unknown-linux-gnu", "Thread model: posix", *rest, ""))


def main(argv: Sequence[str], toolkit: Toolkit, name: str = "icpx") -> int:
    """Do what icpx or icx would; return its exit status."""
    if "--version" in argv:
        sys.stdout.write(toolkit.describe())
        return 0
    try:
        if is_sycl(argv):
            _drive(toolkit, divide(argv))
        else:
            _run("g++" if name == "icpx" else "gcc", toolkit.macro, *plain(argv), *toolkit.host, out=None)
    except (FrontEndError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    return 0


def _drive(toolkit: Toolkit, options: Options) -> None:
    if options.preprocess_only:
        # What ccache hashes. GCC writes to standard output, unless a file is named.
        flags = (*options.for_host, *toolkit.host, *toolkit.includes, "-E", *map(str, options.sources))
        to = () if options.output == Options.output else ("-o", str(options.output))
        _run(options.host_compiler, *flags, *to, out=None)
        return
    with tempfile.TemporaryDirectory(prefix="sycl-") as name:
        folder = Path(name)
        objects = []
        for number, source in enumerate(options.sources):
            part = folder / str(number)
            part.mkdir()
            objects.append(_compile(toolkit, options, source, part))
        if options.compile_only:
            shutil.copyfile(objects[0], options.output)
            return
        given = [Path(word) for word in options.link if word.endswith(".o")]
        device = _device_link(toolkit, options, [*objects, *given], folder)
        if options.device_link:
            shutil.copyfile(device, options.output)
            return
        words = [*map(str, (*objects, device)), *options.link]
        _run(options.host_compiler, *words, f"-L{toolkit.root / 'lib'}", "-lsycl", "-o", options.output)


def _compile(toolkit: Toolkit, options: Options, source: Path, folder: Path) -> Path:
    """Make an object of a source: host code, and the images of its kernels in a section."""
    # GCC takes no [[deprecated]] after the attribute of visibility.
    deprecated = "-DSYCL2020_DISABLE_DEPRECATION_WARNINGS"
    quiet = ("-Wno-attributes", "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING", deprecated)
    flags = (*options.for_host, *toolkit.host, *quiet, *toolkit.includes, "-iquote", str(source.parent))
    headers = folder / "headers.d"
    listing = ("-MD", "-MF", headers, "-MT", options.header_target or options.output)
    no_kernels = any(part in str(source) for part in toolkit.no_kernels)
    if no_kernels or not _INCLUDES_SYCL.search(source.read_text()):
        # torch-xpu-ops compiles such a source to ask for the macros.
        macros = () if options.other_host else (toolkit.macro, _LANGUAGE)
        _run(options.host_compiler, *flags, *macros, *listing, "-c", source, "-o", folder / "host.o")
        if no_kernels or f"{toolkit.root / 'include' / 'sycl'}/" not in headers.read_text():
            _tell_headers(options, headers.read_text())
            return folder / "host.o"
    header, footer = folder / "header.h", folder / "footer.h"
    images, log = _in_a_child(
        toolkit.front_end,
        source,
        # With another host compiler, kernels need names: the front end says so for this option.
        ["-x", "c++", f"-fsycl-host-compiler={options.host_compiler}", *toolkit.device,
         # icpx has these, too: c10/util/BFloat16.h includes ext/oneapi/bfloat16.hpp.
         *options.device, *toolkit.includes,
         "-Xclang", f"-fsycl-int-header={header}", "-Xclang", f"-fsycl-int-footer={footer}"],
    )  # fmt: skip
    if log:
        sys.stderr.write(f"{log}\n")
    wrapper = folder / "wrapper.cpp"
    wrapper.write_text(
        f'#include "{header}"\n#line 1 "{source}"\n{source.read_text()}\n#include "{footer}"\n'
    )
    host, target = folder / "host.o", folder / "object.o"
    _run(options.host_compiler, *flags, *listing, "-c", wrapper, "-o", host)
    found = headers.read_text().replace(str(wrapper), str(source))
    _tell_headers(options, found.replace(str(header), "").replace(str(footer), ""))
    stored = folder / "images"
    stored.write_bytes(pickle.dumps(images))
    _run("objcopy", "--add-section", f"{_SECTION}={stored}",
         "--set-section-flags", f"{_SECTION}=noload,readonly,exclude", host, target)  # fmt: skip
    return target


def _tell_headers(options: Options, headers: str) -> None:
    """Write the list of a source's headers, where one is asked for."""
    if options.lists_headers:
        (options.header_list or options.output.with_suffix(".d")).write_text(headers)


def _in_a_child(library: Path, source: Path, options: Sequence[str]) -> tuple[list[Image], str]:
    """Run the front end in a process of its own, which gives its memory back and may crash."""
    try:
        with ProcessPoolExecutor(1) as pool:
            return pool.submit(compile_device, library, source, options).result()
    except BrokenProcessPool as error:
        raise FrontEndError(f"the front end crashed on {source}") from error


def _images(path: Path, folder: Path) -> list[Image]:
    """Return the device images of an object that this driver made."""
    out = folder / "taken"
    out.unlink(missing_ok=True)
    subprocess.run(["objcopy", "-O", "binary", f"--only-section={_SECTION}", "--set-section-flags",
                    f"{_SECTION}=alloc", str(path), str(out)], check=True, capture_output=True)  # fmt: skip
    if not out.is_file() or not out.stat().st_size:
        return []
    found: list[Image] = pickle.loads(out.read_bytes())  # noqa: S301 - written by this driver
    return found


def _device_link(toolkit: Toolkit, options: Options, objects: Sequence[Path], folder: Path) -> Path:
    """Make the object that has the images of all targets and registers them."""
    images = [image for path in objects for image in _images(path, folder)]
    targets = [target for target in options.targets if target not in toolkit.without]
    files = [folder / f"{number}.spv" for number in range(len(images))]
    for image, file in zip(images, files, strict=True):
        file.write_bytes(image.data)
    # Images without kernels have functions for others, which take them from SPIR-V.
    native = [file for image, file in zip(images, files, strict=True) if image.kernels]
    made: dict[Path, Path] = {}
    if "spir64_gen" in targets:
        with ThreadPoolExecutor(options.link_jobs) as pool:
            made = dict(zip(native, pool.map(partial(_native, toolkit, options), native), strict=True))
    linked = []
    for image, file in zip(images, files, strict=True):
        linked += [registration.Linked("spir64_gen", made[file], image)] if file in made else []
        linked += [registration.Linked("spir64", file, image)] if "spir64" in targets else []
    source, target_file = folder / "registration.c", folder / "registration.o"
    source.write_text(registration.source(linked, toolkit.descriptor))
    _run("gcc", "-fPIC", "-c", source, "-o", target_file)
    return target_file


def _native(toolkit: Toolkit, options: Options, spirv: Path) -> Path:
    """Compile SPIR-V ahead of time. Newer releases of ocloc append .bin even to the name they are told."""
    key = hashlib.sha256(spirv.read_bytes() + "\0".join(options.backend).encode()).hexdigest()
    kept = Path(toolkit.kept, key[:2], key) if toolkit.kept else None
    if kept is not None and kept.is_file():
        return kept
    name = f"{spirv.stem}.native"
    _run("ocloc", "compile", "-q", "-spirv_input", "-file", spirv, "-output", name, "-out_dir", spirv.parent,
         "-output_no_suffix", *options.backend, cwd=spirv.parent)  # fmt: skip
    made = spirv.parent / name
    made = made if made.exists() else made.with_name(f"{name}.bin")
    if kept is None:
        return made
    kept.parent.mkdir(parents=True, exist_ok=True)
    scratch = kept.with_suffix(f".{os.getpid()}.{spirv.stem}")
    shutil.move(made, scratch)
    return scratch.replace(kept)


def _run(*argv: str | Path, cwd: Path | None = None, out: IO[str] | None = sys.stderr) -> None:
    subprocess.run([str(word) for word in argv], check=True, cwd=cwd, stdout=out)


def install(folder: Path, root: Path, *, name: str = "icpx", **settings: Any) -> Path:
    """Write the program ``icpx`` or ``icx`` into a folder; it compiles with what ``root`` has.

    ``settings`` are those of ``Toolkit``.
    """
    program = folder / name
    tests = Path(__file__).resolve().parent.parent.parent
    told = "".join(f", {key}={value!r}" for key, value in settings.items())
    program.write_text(
        f"#!{sys.executable}\n# stand-in for {name}: Intel's front end with a stand-in driver\n"
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(tests)!r})\n"
        "from support.sycl_compiler.driver import Toolkit, main\n"
        f"toolkit = Toolkit(Path({os.fspath(root)!r}){told})\n"
        f"sys.exit(main(sys.argv[1:], toolkit, {name!r}))\n"
    )
    program.chmod(0o755)
    return program
