"""fetch and installs without a network, for two Pythons, from each kind of place that pip can be given."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from support.artifacts import pack
from support.indexes import PackageIndex, sha256

from xpubuild.engine.events import NullSink
from xpubuild.engine.process import Cancel, run
from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError, RecipeError, SourceIntegrityError
from xpubuild.install.fetch_packages import fetch_wheels, needs_of
from xpubuild.install.inputs import Inputs, RequirementFile
from xpubuild.install.offline import require_wheels
from xpubuild.machine.make_env import make_env
from xpubuild.machine.python_environment import env_python, install_command
from xpubuild.machine.pythons import resolve_python
from xpubuild.supply.depot.entries import PAGE, index_of
from xpubuild.supply.depot.examine import damages
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.index.pipconf import find_uv, offline_environment
from xpubuild.supply.uv.install import Installation

HERE = f"3.{sys.version_info[1]}"
OTHER = "3.13" if HERE != "3.13" else "3.12"
PYTHONS = (HERE, OTHER)
OLD = "manylinux_2_17_x86_64.manylinux2014_x86_64"


class Site:
    """Wheels of demo, and of tool for each Python and two C libraries, and their pins."""

    def __init__(self, folder: Path) -> None:
        self.wheels = folder / "my wheels é"
        made = [pack(self.wheels, "demo", "1.0", {"demo.py": b"x = 1\n"}, tag="py3-none-any")]
        for python in PYTHONS:
            cp = f"cp{python.replace('.', '')}"
            for platform in (OLD, "manylinux_2_36_x86_64"):
                name = f"{cp}-{cp}-{platform}"
                made.append(
                    pack(self.wheels, "tool", "2.0", {"tool.py": f"x = {name!r}\n".encode()}, tag=name)
                )
        self.text = ""
        for pin in ("demo==1.0", "tool==2.0 ; python_version >= '3.10'"):
            hashes = [f"--hash=sha256:{self.digest(path)}" for path in made if path.name.startswith(pin[:4])]
            self.text += f"{pin} {' '.join(hashes)}\n"
        self.text += f"never==1 ; python_version < '3' --hash=sha256:{'0' * 64}\n"

    @staticmethod
    def digest(path: Path) -> str:
        return sha256(path.read_bytes())

    def inputs(self, text: str = "", *indexes: str) -> Inputs:
        file = RequirementFile("requirements/site.txt", text or self.text, indexes)
        return Inputs("site", f"{HERE}.1", (), (), (file,))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def served(site: Site) -> Iterator[PackageIndex]:
    """An index that has its pages and files below other paths than those of the Python package index."""
    with PackageIndex(root="/artifacts/of-the-site/pypi") as index:
        for path in site.wheels.iterdir():
            index.add(path.name, path.read_bytes())
        yield index


def settings(**variables: str) -> dict[str, str]:
    return {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "PIP_TIMEOUT": "5",
        "PIP_RETRIES": "0",
        **variables,
    }


def index_folder(site: Site) -> Path:
    """Write an index of files on this machine: a page for each project."""
    root = site.wheels.parent / "an index"
    for name in ("demo", "tool"):
        (root / name).mkdir(parents=True)
        links = [
            f'<a href="{path.as_uri()}#sha256={site.digest(path)}">{path.name}</a>'
            for path in site.wheels.glob(f"{name}-*.whl")
        ]
        (root / name / "index.html").write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>")
    return root


def fetched(
    site: Site, place: Path, inputs: Inputs | None = None, pythons: tuple[str, ...] = PYTHONS
) -> set[str]:
    mirror = Depot.open(place, create=True)
    with mirror.writing():
        before, teller = mirror.files(), Teller(NullSink())
        needs = needs_of(inputs or site.inputs(), pythons)
        entries = fetch_wheels(mirror, needs, before, teller, Cancel())
        mirror.publish(index_of((*before, *entries), []))
    assert damages(mirror) == []
    assert not (place / ".downloads" / "pip").exists()
    return {entry.name for entry in mirror.files()}


@pytest.mark.parametrize("kind", ["folder", "file index", "loopback"])
def test_two_pythons_and_an_install_without_a_network(
    kind: str, site: Site, served: PackageIndex, tmp_path: Path
) -> None:
    """Fetched is the wheel that most machines can install; uv and pip install it offline."""
    folder = index_folder(site)
    pip = {
        "folder": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": site.wheels.as_uri()},
        "file index": {"PIP_INDEX_URL": folder.as_uri()},
        "loopback": {"PIP_INDEX_URL": served.url()},
    }[kind]
    place = tmp_path / "mirror"
    with mock.patch.dict(os.environ, settings(**pip)):
        names = fetched(site, place)
    tags = [f"cp{python.replace('.', '')}" for python in PYTHONS]
    assert names == {"demo-1.0-py3-none-any.whl", *(f"tool-2.0-{tag}-{tag}-{OLD}.whl" for tag in tags)}
    shutil.rmtree(site.wheels)
    shutil.rmtree(folder)
    served.requests.clear()

    files = Depot.open(place).files()
    assert len(files) == 3
    require_wheels(
        [(entry.name, entry.sha256) for entry in files],
        [need for needs in needs_of(site.inputs(), PYTHONS) for need in needs],
    )
    offline = offline_environment(place / PAGE)
    requirements = tmp_path / "r.txt"
    requirements.write_text(site.text)
    env = tmp_path / "by uv"
    python = resolve_python(None, dict(os.environ))
    make_env(env, python)
    uv = find_uv()
    assert uv.path
    said: list[str] = []
    environment = {**os.environ, **offline}
    Installation(
        env,
        requirements,
        uv.path,
        tmp_path / "cache",
        tmp_path / "report.json",
        f"{HERE}.{sys.version_info[2]}",
        environment,
        Cancel(),
        said.append,
    ).perform()
    assert ran(env, "import demo, tool; print(demo.x)") == "1"
    other = tmp_path / "by pip"
    make_env(other, python)
    argv = install_command(str(other), str(requirements)).argv
    done = run(argv, env={**os.environ, **offline}, on_line=said.append)
    assert done.ok, said
    assert ran(other, "import demo, tool; print(demo.x)") == "1"
    assert served.requests == []


def ran(env: Path, code: str) -> str:
    lines: list[str] = []
    assert run([env_python(env), "-c", code], env=dict(os.environ), on_line=lines.append).ok
    return lines[-1]


def test_what_came_whole_is_kept_when_another_wheel_fails(
    site: Site, served: PackageIndex, tmp_path: Path
) -> None:
    (tool,) = (name for name in served.files if "2_17" in name and f"cp{HERE.replace('.', '')}-" in name)
    served.faults.status[f"/files/{tool}"] = [404]
    # pip caches nothing that came without https from a host that is not trusted.
    host = f"127.0.0.1:{served.port}"
    pip = {"PIP_INDEX_URL": served.url(), "PIP_TRUSTED_HOST": host, "PIP_NO_CACHE_DIR": "1"}
    with mock.patch.dict(os.environ, settings(**pip)):
        with pytest.raises(FetchError):
            fetched(site, tmp_path / "mirror", pythons=(HERE,))
        served.requests.clear()
        fetched(site, tmp_path / "mirror", pythons=(HERE,))
    assert {path.rpartition("/")[2] for path in served.asked("/files/")} == {tool}


def test_the_recipes_indexes_are_asked_where_pips_have_nothing(
    site: Site, served: PackageIndex, tmp_path: Path
) -> None:
    with PackageIndex() as empty, mock.patch.dict(os.environ, settings(PIP_INDEX_URL=empty.url())):
        with pytest.raises(FetchError, match=rf"demo==1\.0.*for Python {HERE}") as caught:
            fetched(site, tmp_path / "mirror")
        assert caught.value.exit_code == 30
        assert len(fetched(site, tmp_path / "mirror", site.inputs("", served.url()))) == 3


def test_a_login_reaches_the_index_and_is_never_shown(site: Site, tmp_path: Path) -> None:
    with PackageIndex(login="me:correct-horse") as index:
        for path in site.wheels.iterdir():
            index.add(path.name, path.read_bytes())
        url = index.url("me:correct-horse")
        with mock.patch.dict(os.environ, settings(PIP_INDEX_URL=url)):
            fetched(site, tmp_path / "mirror")
            assert "correct-horse" not in (tmp_path / "mirror" / "index.json").read_text()
            with pytest.raises(FetchError) as caught:
                fetched(site, tmp_path / "mirror", site.inputs(f"gone==1 --hash=sha256:{'1' * 64}\n"))
        assert "correct-horse" not in str(caught.value.to_json())


def test_another_file_than_the_pinned_one(site: Site, served: PackageIndex, tmp_path: Path) -> None:
    text = f"demo==1.0 --hash=sha256:{'1' * 64}\n"
    with mock.patch.dict(os.environ, settings(PIP_INDEX_URL=served.url())):
        with pytest.raises(SourceIntegrityError) as caught:
            fetched(site, tmp_path / "mirror", site.inputs(text, "http://127.0.0.1:1/simple"))
        assert caught.value.exit_code == 31
        with pytest.raises(RecipeError, match="no sha256"):
            fetched(site, tmp_path / "mirror", site.inputs("demo==1.0\n"))


def test_a_wheel_that_is_missing_is_named(site: Site) -> None:
    needs = [need for some in needs_of(site.inputs(), (HERE,)) for need in some]
    with pytest.raises(FetchError, match=f"demo==1.0 for Python {HERE}") as caught:
        require_wheels([], needs)
    assert "offline" in caught.value.what
