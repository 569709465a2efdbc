"""The stand-in driver: device pass, host pass, device link, link."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import registration
from .frontend import FrontEndError, Image, compile_device
from .options import Options, UsageError, divide

#: The section of an object in which its device images wait for the link.
_SECTION = ".sycl_images"
# libsycl.so.9 came with 2026.0.
_FIRST_WITH_VERSION_3 = 9


@dataclass(frozen=True)
class Toolkit:
    """An environment that has intel-sycl-rt: its ``lib`` and ``include``."""

    root: Path

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
        info = next(self.root.glob("lib/python3*/site-packages/intel_sycl_rt-*.dist-info"))
        return info.name.removesuffix(".dist-info").partition("-")[2]


def main(argv: Sequence[str], root: str) -> int:
    """Do what icpx would; return its exit status."""
    toolkit = Toolkit(Path(root))
    if "--version" in argv:
        sys.stdout.write(f"Intel(R) oneAPI DPC++/C++ Compiler {toolkit.version} (stand-in driver)\n")
        return 0
    try:
        _drive(toolkit, divide(argv))
    except (FrontEndError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    return 0


def _drive(toolkit: Toolkit, options: Options) -> None:
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
        words = [*map(str, (*objects, device)), *options.link]
        _run(options.host_compiler, *words, f"-L{toolkit.root / 'lib'}", "-lsycl", "-o", options.output)


def _compile(toolkit: Toolkit, options: Options, source: Path, folder: Path) -> Path:
    """Make an object of a source: host code, and the images of its kernels in a section."""
    header, footer = folder / "header.h", folder / "footer.h"
    images, log = compile_device(
        toolkit.front_end,
        source,
        # With another host compiler, kernels need names: the front end says so for this option.
        ["-x", "c++", f"-fsycl-host-compiler={options.host_compiler}", *options.device,
         "-Xclang", f"-fsycl-int-header={header}", "-Xclang", f"-fsycl-int-footer={footer}"],
    )  # fmt: skip
    if log:
        sys.stderr.write(f"{log}\n")
    wrapper = folder / "wrapper.cpp"
    wrapper.write_text(
        f'#include "{header}"\n#line 1 "{source}"\n{source.read_text()}\n#include "{footer}"\n'
    )
    host, target = folder / "host.o", folder / "object.o"
    flags = options.host if options.host_options is None else options.host_options
    quiet = ("-Wno-attributes", "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING")
    beside = ("-iquote", source.parent)
    _run(options.host_compiler, *flags, *quiet, *toolkit.includes, *beside, "-c", wrapper, "-o", host)
    if options.lists_headers:
        listed = options.header_list or options.output.with_suffix(".d")
        told = ("-M", "-MF", listed, "-MT", options.output)
        _run(options.host_compiler, *flags, *quiet, *toolkit.includes, *told, source)
    stored = folder / "images"
    stored.write_bytes(pickle.dumps(images))
    flags_of_section = f"{_SECTION}=noload,readonly"
    _run(
        "objcopy",
        "--add-section",
        f"{_SECTION}={stored}",
        "--set-section-flags",
        flags_of_section,
        host,
        target,
    )
    return target


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
    linked = []
    for number, image in enumerate(images):
        spirv = folder / f"{number}.spv"
        spirv.write_bytes(image.data)
        for target in options.targets:
            # Images without kernels have functions for others, which take them from SPIR-V.
            if target == "spir64_gen" and image.kernels:
                linked.append(registration.Linked(target, _native(options, spirv), image))
            elif target == "spir64":
                linked.append(registration.Linked(target, spirv, image))
    source, target_file = folder / "registration.c", folder / "registration.o"
    source.write_text(registration.source(linked, toolkit.descriptor))
    _run("gcc", "-fPIC", "-c", source, "-o", target_file)
    return target_file


def _native(options: Options, spirv: Path) -> Path:
    """Compile SPIR-V ahead of time. Newer releases of ocloc append .bin even to the name they are told."""
    name = f"{spirv.stem}.native"
    _run("ocloc", "compile", "-q", "-spirv_input", "-file", spirv, "-output", name, "-out_dir", spirv.parent,
         "-output_no_suffix", *options.backend, cwd=spirv.parent)  # fmt: skip
    made = spirv.parent / name
    return made if made.exists() else made.with_name(f"{name}.bin")


def _run(*argv: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([str(word) for word in argv], check=True, cwd=cwd, stdout=sys.stderr)


def install(folder: Path, root: Path) -> Path:
    """Write the program ``icpx`` into a folder; it compiles with the headers and libraries of ``root``."""
    program = folder / "icpx"
    tests = Path(__file__).resolve().parent.parent.parent
    program.write_text(
        f"#!{sys.executable}\n# stand-in for icpx: Intel's front end with a stand-in driver\nimport sys\n"
        f"sys.path.insert(0, {str(tests)!r})\nfrom support.sycl_compiler.driver import main\n"
        f"sys.exit(main(sys.argv[1:], {os.fspath(root)!r}))\n"
    )
    program.chmod(0o755)
    return program
