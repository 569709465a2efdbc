"""``xpubuild wheel repair``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import options


@click.group(name="wheel", short_help="Make wheels that work on other machines.")
def command() -> None:
    """Make wheels that work on other machines."""


@command.command(short_help="Make a wheel for other machines from one that was built.")
@options.wheels_argument
@click.option(
    "--kind",
    type=click.Choice(["portable", "site"]),
    default="portable",
    show_default=True,
    help="portable: for any machine of the platform tag; site: for machines with the same oneAPI module.",
)
@click.option(
    "--bundle",
    is_flag=True,
    help="Put the libraries of Intel's runtime into the wheel instead of requiring them.",
)
@options.path_option(
    "--runtime",
    default=None,
    help="Environment with the wheels that the result will require, Intel's and torch.",
)
@options.path_option(
    "--lock",
    "lock_file",
    default=None,
    metavar="FILE",
    help="Lock that Intel's packages in the environment of --runtime must match.",
)
@options.search_option
@click.option(
    "--builder",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder whose name must not be in the result, beside the home folder; may be repeated.",
)
@click.option(
    "--output",
    default="repaired",
    type=click.Path(path_type=Path),
    show_default=True,
    help="Folder for the repaired wheels.",
)
@options.json_option
@options.speech()
def repair(
    wheels: tuple[Path, ...],
    kind: str,
    bundle: bool,
    runtime: Path | None,
    lock_file: Path | None,
    search: tuple[Path, ...],
    builder: tuple[Path, ...],
    output: Path,
    as_json: bool,
) -> int:
    """Repair WHEELS: RPATH, requirements, libraries and platform tag, audited before and after.

    A portable wheel finds the libraries of Intel's runtime in the wheels that it requires (of the versions in
    the environment of --runtime), or brings them with --bundle. Other libraries that manylinux systems lack
    are put into it. A site wheel loses the builder's paths alone.
    """
    from xpubuild.artifacts.repair_model import RepairRequest
    from xpubuild.artifacts.site_packages import runtime_folder
    from xpubuild.artifacts.wheel_repair import repair_wheel
    from xpubuild.errors import UsageError
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import repair_view

    for wheel in wheels:
        if not wheel.is_file():
            raise UsageError(f"{wheel} does not exist", fix="pass the paths of wheels, such as dist/*.whl")
    if kind == "site" and bundle:
        raise UsageError("--bundle is for portable wheels", fix="omit --bundle, or --kind site")
    site_packages = None if runtime is None else runtime_folder(runtime)
    if lock_file is not None and site_packages is not None:
        from xpubuild.install.lock_file import read_lock
        from xpubuild.install.repair_locked import require_locked

        require_locked(site_packages, read_lock(lock_file))
    request = RepairRequest(
        kind="site" if kind == "site" else "portable",
        bundle=bundle,
        runtime=site_packages,
        search=tuple(folder.absolute() for folder in search),
        builder=tuple(folder.absolute() for folder in builder),
    )
    done = [repair_wheel(wheel, request, output) for wheel in wheels]
    if as_json:
        print_json({"schema": "xpubuild.wheel-repair/1", "wheels": done})
    else:
        show(repair_view(done))
    return 0
