"""``xpubuild verify-lock``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.install.lock_model import Policy
    from xpubuild.supply.depot.location import Location


@click.command(
    name="verify-lock", short_help="Check a lock against its recipe, the sources and this machine."
)
@click.argument("file", type=click.Path(path_type=Path))
@options.option(
    "--policy", type=click.Choice(["exact", "compatible", "ignore"]), default="compatible", show_default=True,
    help="How strictly driver, oneAPI, compilers and C library of this machine are compared.",
)  # fmt: skip
@options.option(
    "--recipe", default=None, metavar="FILE", help="Recipe file, if it is not in the search path."
)
@options.option("--python", "python", default=None, metavar="EXE", help="Interpreter to build for.")
@options.path_option("--oneapi-root", default=None, help="oneAPI installation to compare with.")
@options.folders_option("--extra-path", help=options.EXTRA_PATH)
@options.folders_option("--extra-library-path", help=options.EXTRA_LIBRARY_PATH)
@options.path_option(
    "--conda-lock",
    default=None,
    metavar="FILE",
    help="conda-lock.yml to compare with (default: solve one).",
)
@options.mirror_option("Mirror to use before the network: a folder, http or https URL.")
@options.option(
    "--offline", is_flag=True, help="Do not use the network; fail if something is not in the mirror."
)
@options.json_option
@options.speech("quiet")
def command(
    file: Path,
    policy: Policy,
    recipe: str | None,
    python: str | None,
    oneapi_root: Path | None,
    extra_path: tuple[Path, ...],
    extra_library_path: tuple[Path, ...],
    conda_lock: Path | None,
    mirror: Path | Location | None,
    offline: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Create the lock FILE again from its recipe and sources, and list all differences.

    Exit codes: 20 if FILE is not a lock, 21 if it was edited or differs, 30 if a source is unavailable, 31
    if a source does not match the lock.
    """
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.install.lock_check import check_lock
    from xpubuild.install.lock_file import read_lock
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import fetch_progress, lock_verified_view

    lock = read_lock(file)
    cancel, report = Cancel(), fetch_progress(quiet=quiet)

    over = {
        "python": python,
        "oneapi_root": oneapi_root,
        "extra_path": extra_path,
        "extra_library_path": extra_library_path,
        "conda_lock": conda_lock,
        "mirror": mirror,
        "offline": offline,
        "report": report,
        "telling": options.new_sink,
    }
    with cancel_on_signals(cancel):
        verdict = check_lock(lock, policy=policy, report=report, recipe=recipe, over=over, cancel=cancel)
    document, error = verdict.document(), verdict.error()
    if not as_json and not (quiet and error is None):
        show(lock_verified_view(document))
    if error is not None:
        raise error
    if as_json:
        print_json(document)
    return 0
