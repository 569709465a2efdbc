"""Builds the stand-in driver from its C source, once per test run."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_driver.c")
SONAME = "libze_intel_gpu.so.1"


@functools.cache
def fake_driver() -> Path:
    """Return the library, built with gcc against the headers of libze-dev.

    It lies in the temporary folder of the test run, which is removed at its end.
    """
    # tempfile itself remembers the folder from before the run had one of its own.
    library = Path(tempfile.mkdtemp(prefix="fake-ze-", dir=os.environ.get("TMPDIR"))) / SONAME
    argv = ["gcc", "-std=gnu11", "-O1", "-fPIC", "-shared", f"-Wl,-soname,{SONAME}", str(SOURCE)]
    subprocess.run([*argv, "-o", str(library)], check=True, capture_output=True, text=True)
    return library
