"""Runs checks of one group in the target interpreter and reports while it goes.

``python run.py --hello --needs PACKAGE ...`` prints the interpreter's version and which packages are missing.
``python run.py --device D --require PART ... --option NAME=VALUE ... -- ID ...`` runs the checks in the given
order. Each record is a line that starts with
the ASCII record separator and holds one JSON object; all else on the streams is output of the check that
started last.

    {"event": "start", "id": ..., "process": number}
    {"event": "result", "id": ..., "status": pass|fail|skip, "duration_s": s, "detail": text, "metrics": {},
     "warnings": []}
    {"event": "facts", "torch": {...}, "device": {...}}
    {"event": "progress", "id": ..., "detail": text}
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

_PACKAGE = "xpubuild_verify_suite"
_LONGEST_DETAIL = 1500


class _Unwritten(importlib.machinery.SourceFileLoader):
    """Leaves no bytecode beside the suite: its folder may be somebody else's, or for another Python.

    What else is imported keeps its own: to make that of torch's compiler takes longer than most checks.
    """

    def set_data(self, *_data: Any, **_mode: Any) -> None:
        """Write nothing."""


def _load_suite() -> None:
    """Import this folder as a package with its own name, wherever it is."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != folder]
    init = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, init, loader=_Unwritten(_PACKAGE, str(init)), submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"the suite in {folder} cannot be loaded")
    finder = importlib.machinery.FileFinder(str(folder), (_Unwritten, importlib.machinery.SOURCE_SUFFIXES))
    sys.path_importer_cache[str(folder)] = finder
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    registry = importlib.import_module(f"{_PACKAGE}.registry")
    registry.discover()


def _send(record: dict[str, Any]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # One write of less than a page: output of other threads cannot get in between.
    os.write(1, b"\x1e" + json.dumps(record).encode() + b"\n")


def _prepare_process() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    # Asked to stop while stuck in native code, the process still says where it is.
    faulthandler.register(signal.SIGINT, chain=True)
    # torch wheels do not pull numpy in; its absence is no finding.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)


def _in_a_line(error: BaseException) -> str:
    """Return the line that ends a traceback; of a message with several lines, the first."""
    text = traceback.format_exception_only(type(error), error)[-1].strip()
    return text.splitlines()[0]


def _run_check(check: Any, context: Any, errors: Any) -> tuple[str, str]:
    try:
        check.function(context)
    except errors.CheckSkippedError as reason:
        return "skip", str(reason)
    except errors.CheckFailedError as finding:
        return "fail", str(finding)
    except errors.CheckFaultError as fault:
        return "fail", f"the check is at fault, not the device: {fault}"
    except Exception as error:  # noqa: BLE001 - the boundary: whatever a check raises is its result
        traceback.print_exc()
        return "fail", _in_a_line(error)
    return "pass", "; ".join(context.notes)


def _run_all(options: argparse.Namespace) -> None:
    registry = importlib.import_module(f"{_PACKAGE}.registry")
    errors = importlib.import_module(f"{_PACKAGE}.context")
    backend = importlib.import_module(f"{_PACKAGE}.backends").BACKENDS[options.device]
    given = dict(entry.split("=", 1) for entry in options.option)
    component = importlib.import_module(f"{_PACKAGE}.component")
    for key in [key for key in given if key.startswith(component.OPTION)]:
        component.declare(key[len(component.OPTION) :], json.loads(given.pop(key)))
    checks = registry.discover()
    statuses: dict[str, str] = {}
    os.environ.update(backend.environment)
    if "import.torch" not in options.ids:
        # Another process has shown that it can be imported; here its time belongs to no check.
        torch = importlib.import_module("torch")
        importlib.import_module(f"{_PACKAGE}.settling").settle(torch)
    for identifier in options.ids:
        check = checks[identifier]
        context = errors.SuiteContext(backend, frozenset(options.require), given)
        context.planned = tuple(options.ids)
        context.progress = lambda said, of=identifier: _send({"event": "progress", "id": of, "detail": said})
        started = time.monotonic()
        reason = registry.blocked_by(check, statuses)
        if reason is None:
            _send({"event": "start", "id": identifier, "process": os.getpid()})
            status, detail = _run_check(check, context, errors)
        else:
            status, detail = "skip", reason
        statuses[identifier] = status
        if context.facts:
            _send({"event": "facts", **context.facts})
        spent = round(time.monotonic() - started, 4)
        result = {"status": status, "duration_s": spent, "detail": detail[:_LONGEST_DETAIL]}
        more = {"metrics": context.metrics, "warnings": context.warnings}
        _send({"event": "result", "id": identifier, **result, **more})


def main(arguments: list[str]) -> int:
    """Run the checks of the command line; the exit code does not depend on their results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hello", action="store_true")
    parser.add_argument("--needs", action="append", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--require", action="append", default=[])
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--references", nargs=3, metavar=("FOLDER", "HOMES", "DEVICE"))
    parser.add_argument("--database-trials", nargs=3, metavar=("DEVICE", "FOLDER", "SECONDS"))
    parser.add_argument("ids", nargs="*")
    options = parser.parse_args(arguments)
    if options.hello:
        version = list(sys.version_info[:3])
        missing = [name for name in options.needs if importlib.util.find_spec(name) is None]
        name = platform.python_implementation()
        _send({"event": "hello", "version": version, "implementation": name, "missing": missing})
        return 0
    _prepare_process()
    if options.references:
        folder, homes, device = options.references
        sys.path += homes.split(os.pathsep)
        _load_suite()
        importlib.import_module(f"{_PACKAGE}.references").serve(folder, device)
    elif options.database_trials:
        device, folder, deadline_s = options.database_trials
        _load_suite()
        importlib.import_module(f"{_PACKAGE}.database_trial").serve_trials(device, folder, float(deadline_s))
    else:
        _load_suite()
        _run_all(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
