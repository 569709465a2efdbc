"""Which files are found: indexes in both forms, wheel folders, pages of links; what is said when none is."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.indexes import PackageIndex, sha256

from xpubuild.engine.watch import Cancel
from xpubuild.errors import FetchError, InterruptedByUserError, RecipeError, SourceIntegrityError
from xpubuild.resources import recipes_dir
from xpubuild.supply.index.config import IndexConfig, read_config
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.wanted import wanted_files, wanted_open, with_sizes

SECRET = "correct-horse"
OLD = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
NEW = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
NEXT = "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
MUSL = "demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl"
SOURCE = "demo-1.0.tar.gz"


def pin(*hashes: str, name: str = "demo", version: str = "1.0", marker: str = "") -> str:
    return f"{name}=={version}{marker} " + " ".join(f"--hash=sha256:{value}" for value in hashes) + "\n"


def config_of(*indexes: str, find_links: str = "", home: Path | None = None, **variables: str) -> IndexConfig:
    env = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_TIMEOUT": "5",
        "PIP_RETRIES": "1",
        "HOME": str(home or "/nowhere"),
    }
    if indexes:
        env |= {"PIP_INDEX_URL": indexes[0], "PIP_EXTRA_INDEX_URL": " ".join(indexes[1:])}
    else:
        env["PIP_NO_INDEX"] = "1"
    return read_config({**env, "PIP_FIND_LINKS": find_links, **variables})


def names(files: list[RemoteFile]) -> list[str]:
    return [file.filename for file in files]


@pytest.fixture(params=["html", "json"])
def index(request: pytest.FixtureRequest) -> Iterator[PackageIndex]:
    with PackageIndex(json_pages=request.param == "json") as served:
        yield served


@pytest.fixture
def plain() -> Iterator[PackageIndex]:
    with PackageIndex() as served:
        yield served


def test_every_wheel_that_an_interpreter_may_pick_is_found_with_its_hash(index: PackageIndex) -> None:
    hashes = [index.add(name) for name in (OLD, NEW, NEXT, MUSL, SOURCE, "demo-2.0-py3-none-any.whl")]
    files = wanted_files([(pin(*hashes), ())], ["3.11"], config_of(index.url()))
    assert names(files) == [OLD, NEW]
    assert [file.sha256 for file in files] == hashes[:2]
    assert files[0].url == f"{index.at()}/files/{OLD}"
    assert [file.size for file in files] == ([len(OLD), len(NEW)] if index.json_pages else [None, None])
    both = wanted_files([(pin(*hashes), ())], ["3.11", "3.12"], config_of(index.url()))
    assert names(both) == [OLD, NEW, NEXT]


def test_sizes_that_a_page_does_not_state_are_asked_for(plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    config = config_of(plain.url())
    files = wanted_files([(pin(digest), ())], ["3.11"], config)
    assert [file.size for file in with_sizes(files, config)] == [len(OLD)]
    assert [request.method for request in plain.requests if "/files/" in request.path] == ["HEAD"]


def test_a_source_distribution_comes_where_there_is_no_wheel(index: PackageIndex) -> None:
    hashes = [index.add(name) for name in (OLD, SOURCE)]
    config = config_of(index.url())
    assert names(wanted_files([(pin(*hashes), ())], ["3.11", "3.13"], config)) == [OLD, SOURCE]
    with pytest.raises(FetchError, match=r"demo 1\.0 for Python 3\.13"):
        wanted_files([(pin(*hashes), ())], ["3.11", "3.13"], config, sdists=False)


def test_markers_and_requires_python_are_minded_per_interpreter(index: PackageIndex) -> None:
    old = index.add("demo-1.0-py3-none-any.whl", requires_python="<3.11")
    new = index.add("demo-2.0-py3-none-any.whl", requires_python=">=3.11")
    text = pin(old, marker=" ; python_full_version < '3.11'")
    text += pin(new, version="2.0", marker=" ; python_full_version >= '3.11'")
    config = config_of(index.url())
    assert names(wanted_files([(text, ())], ["3.10"], config)) == ["demo-1.0-py3-none-any.whl"]
    assert len(wanted_files([(text, ())], ["3.10", "3.12"], config)) == 2
    with pytest.raises(FetchError, match=r"demo 1\.0 for Python 3\.12"):
        wanted_files([(pin(old), ())], ["3.12"], config)


def test_an_index_without_hashes_leaves_those_of_the_requirement_file(plain: PackageIndex) -> None:
    plain.hashes = False
    digest = plain.add(OLD)
    (file,) = wanted_files([(pin(digest, "0" * 64), ())], ["3.11"], config_of(plain.url()))
    assert file.sha256 is None
    assert file.allowed == {digest, "0" * 64}


def test_a_wheel_folder_with_blanks_is_read_and_hashed(tmp_path: Path, plain: PackageIndex) -> None:
    folder = tmp_path / "my wheels é"
    folder.mkdir()
    (folder / OLD).write_bytes(b"here")
    (folder / "notes.txt").write_text("no wheel")
    digest = plain.add(OLD, b"there")
    here = sha256(b"here")
    config = config_of(plain.url(), find_links=folder.as_uri())
    (file,) = wanted_files([(pin(here), ())], ["3.11"], config)
    assert (file.sha256, file.size, file.url) == (here, 4, (folder / OLD).as_uri())
    # The folder's file is not the pinned one, that of the index is.
    (other,) = wanted_files([(pin(digest), ())], ["3.11"], config)
    assert other.url.startswith("http://")


def test_pages_of_links_count_wherever_they_are(tmp_path: Path, plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    link = f'<a href="{plain.at()}/files/{OLD}#sha256={digest}">a wheel</a>'
    plain.pages["/links"] = link
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "page.html").write_text(link)
    simple = tmp_path / "local index" / "demo"
    simple.mkdir(parents=True)
    (simple / "index.html").write_text(link)
    for config in (
        config_of(find_links=f"{plain.at()}/links"),
        config_of(find_links=str(folder)),
        config_of(find_links=(folder / "page.html").as_uri()),
        config_of(simple.parent.as_uri()),
    ):
        (file,) = wanted_files([(pin(digest), ())], ["3.11"], config)
        assert (file.filename, file.sha256) == (OLD, digest)
    (bare,) = wanted_files([(pin(digest), ())], ["3.11"], config_of(find_links=f"{plain.at()}/files/{OLD}"))
    assert bare.sha256 is None
    assert bare.allowed == {digest}


def test_a_page_of_links_that_names_its_own_folder_is_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / OLD).write_bytes(b"x")
    digest = sha256(b"x")
    (tmp_path / "wheels.html").write_text(f'<a href="files/{OLD}#sha256={digest}">{OLD}</a>')
    config = config_of(find_links=(tmp_path / "wheels.html").as_uri())
    (file,) = wanted_files([(pin(digest), ())], ["3.11"], config)
    assert file.url == (tmp_path / "files" / OLD).as_uri()


def test_own_indexes_of_a_recipe_are_asked_only_for_what_is_lacking(plain: PackageIndex) -> None:
    with PackageIndex() as own:
        here, there = plain.add(OLD), own.add("torch-2.0+cpu-py3-none-any.whl")
        text = pin(here) + pin(there, name="torch", version="2.0+cpu")
        files = wanted_files([(text, (own.url(),))], ["3.11"], config_of(plain.url()))
        assert names(files) == [OLD, "torch-2.0+cpu-py3-none-any.whl"]
        assert own.asked() == ["/simple/torch/"]


def test_the_first_thing_that_is_missing_is_named_with_the_places(
    plain: PackageIndex, tmp_path: Path
) -> None:
    digest = plain.add(OLD)
    dead = "http://127.0.0.1:1/simple"
    config = config_of(plain.url(), find_links=str(tmp_path))
    with pytest.raises(FetchError) as caught:
        wanted_files([(pin(digest), (dead,))], ["3.11", "3.12"], config)
    error = caught.value
    assert error.exit_code == 30
    assert error.what == "demo 1.0 for Python 3.12 was not found"
    for place in (str(tmp_path), plain.url(), f"{dead} (could not be reached"):
        assert place in error.why
    assert error.evidence["distribution"] == "demo"
    assert error.evidence["python"] == "3.12"
    assert "HTTPS_PROXY" in error.fix


def test_an_index_that_is_out_of_reach_does_not_matter_where_nothing_is_lacking(plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    config = config_of(f"http://me:{SECRET}@127.0.0.1:1/simple", plain.url())
    warnings: list[str] = []
    found = wanted_files([(pin(digest), ())], ["3.11"], config, on_warning=warnings.append)
    assert names(found) == [OLD]
    (warning,) = warnings
    assert warning.startswith("http://127.0.0.1:1/simple is skipped: could not be reached")
    assert SECRET not in warning


@pytest.fixture
def hung_up() -> Iterator[tuple[str, list[int]]]:
    """An index that ends every connection at once, and how often it was called."""
    calls: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()
                    calls.append(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple", calls
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_dead_index_costs_its_retries_once(plain: PackageIndex, hung_up: tuple[str, list[int]]) -> None:
    hashes = [plain.add(f"d{number}-1.0-py3-none-any.whl") for number in range(9)]
    text = "".join(pin(value, name=f"d{number}") for number, value in enumerate(hashes))
    dead, calls = hung_up
    config = config_of(dead, plain.url(), PIP_RETRIES="2")
    assert len(wanted_files([(text, ())], ["3.11"], config)) == 9
    assert len(calls) == 3


def test_files_with_other_hashes_are_an_integrity_error(index: PackageIndex) -> None:
    digest = index.add(OLD)
    with pytest.raises(SourceIntegrityError) as caught:
        wanted_files([(pin("0" * 64), ())], ["3.11"], config_of(index.url()))
    assert caught.value.exit_code == 31
    assert OLD in caught.value.why
    assert digest in caught.value.why


def test_a_damaged_wheel_in_a_folder_is_an_integrity_error(tmp_path: Path) -> None:
    (tmp_path / OLD).write_bytes(b"damaged")
    with pytest.raises(SourceIntegrityError, match=r"demo 1\.0 for Python 3\.11"):
        wanted_files([(pin(sha256(b"good")), ())], ["3.11"], config_of(find_links=str(tmp_path)))


def test_a_pin_without_a_hash_is_refused(plain: PackageIndex) -> None:
    with pytest.raises(RecipeError, match="has no sha256"):
        wanted_files([("demo==1.0\n", ())], ["3.11"], config_of(plain.url()))


@pytest.mark.parametrize("place", ["index", "find-links", "recipe"])
def test_a_login_is_sent_and_never_shown(place: str) -> None:
    with PackageIndex(login=f"me:{SECRET}") as index:
        digest = index.add(OLD)
        index.pages["/links"] = f'<a href="/files/{OLD}#sha256={digest}">x</a>'
        url = index.url(f"me:{SECRET}")
        config, own = {
            "index": (config_of(url), ()),
            "find-links": (config_of(find_links=f"{index.at(f'me:{SECRET}')}/links"), ()),
            "recipe": (config_of(), (url,)),
        }[place]
        (file,) = wanted_files([(pin(digest), own)], ["3.11"], config)
        assert SECRET not in repr(file) + file.url + repr(config)
        with pytest.raises(FetchError) as caught:
            wanted_files([(pin(digest, version="9"), own)], ["3.11"], config)
        assert SECRET not in json.dumps(caught.value.to_json())
        assert index.requests[-1].login == f"me:{SECRET}"


def test_a_login_that_is_wrong_is_told_and_not_shown() -> None:
    with PackageIndex(login="me:other") as index:
        digest = index.add(OLD)
        with pytest.raises(FetchError) as caught:
            wanted_files([(pin(digest), ())], ["3.11"], config_of(index.url(f"me:{SECRET}")))
        assert "answered 401" in caught.value.why
        assert SECRET not in json.dumps(caught.value.to_json())


def test_netrc_is_used(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    (tmp_path / ".netrc").chmod(0o600)
    with PackageIndex(login=f"me:{SECRET}") as index:
        digest = index.add(OLD)
        assert wanted_files([(pin(digest), ())], ["3.11"], config_of(index.url(), home=tmp_path))
        elsewhere = tmp_path / "secrets"
        (tmp_path / ".netrc").rename(elsewhere)
        assert wanted_files([(pin(digest), ())], ["3.11"], config_of(index.url(), NETRC=str(elsewhere)))


def test_a_redirect_is_followed_and_takes_no_login_to_another_host() -> None:
    with PackageIndex(login=f"me:{SECRET}") as first, PackageIndex() as second:
        digest = second.add(OLD)
        first.faults.redirect["/simple/demo/"] = f"{second.url()}/demo/"
        (file,) = wanted_files([(pin(digest), ())], ["3.11"], config_of(first.url(f"me:{SECRET}")))
        assert file.url == f"{second.at()}/files/{OLD}"
        assert [request.login for request in second.requests] == [""]
        assert first.requests[-1].login == f"me:{SECRET}"


def test_a_redirect_on_the_same_host_keeps_the_login() -> None:
    with PackageIndex(login=f"me:{SECRET}") as index:
        digest = index.add(OLD)
        index.faults.redirect["/old/demo/"] = "/simple/demo/"
        config = config_of(f"{index.at(f'me:{SECRET}')}/old")
        assert wanted_files([(pin(digest), ())], ["3.11"], config)


def test_a_server_that_is_busy_for_a_moment_is_asked_again(plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    plain.faults.status["/simple/demo/"] = [503]
    assert wanted_files([(pin(digest), ())], ["3.11"], config_of(plain.url()))
    plain.faults.status["/simple/demo/"] = [503] * 5
    with pytest.raises(FetchError, match="was not found") as caught:
        wanted_files([(pin(digest), ())], ["3.11"], config_of(plain.url()))
    assert "503" in caught.value.why


def test_plain_http_of_another_machine_is_not_taken(plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    with pytest.raises(FetchError) as caught:
        wanted_files([(pin(digest), ())], ["3.11"], config_of("http://plain.example/simple"))
    assert "trusted-host" in caught.value.why


def test_a_page_that_makes_no_sense_is_told(plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    plain.json_pages = True
    plain.page_of = lambda project: ("application/vnd.pypi.simple.v1+json", '{"files": 3}')  # type: ignore[method-assign]
    with pytest.raises(FetchError) as caught:
        wanted_files([(pin(digest), ())], ["3.11"], config_of(plain.url()))
    assert "could not be read" in caught.value.why


def test_a_question_can_be_stopped_while_the_server_is_silent(plain: PackageIndex) -> None:
    digest = plain.add(OLD)
    plain.faults.stall = threading.Event()
    plain.faults.cut_after["/files/x"] = [0]
    plain.files["x"] = b"x"
    cancel = Cancel()
    threading.Timer(0.3, cancel.set, ["test"]).start()
    config = replace(config_of(plain.url()), indexes=(f"{plain.at()}/slow",), timeout_s=30)
    plain.faults.redirect["/slow/demo/"] = f"{plain.at()}/files/x"
    started = time.monotonic()
    with pytest.raises(InterruptedByUserError):
        wanted_files([(pin(digest), ())], ["3.11"], config, cancel=cancel)
    assert time.monotonic() - started < 20
    plain.faults.stall.set()


def test_open_wheels_come_from_the_given_indexes_alone(plain: PackageIndex, tmp_path: Path) -> None:
    (tmp_path / "demo-1.0-py3-none-any.whl").write_bytes(b"not this")
    with PackageIndex() as own:
        wanted = [own.add(name) for name in (OLD, NEXT)]
        own.add(SOURCE)
        plain.add("demo-1.0-py3-none-any.whl")
        config = config_of(plain.url(), find_links=str(tmp_path))
        files = wanted_open("demo", "1.0", ["3.11", "3.12"], [own.url()], config)
        assert [file.sha256 for file in files] == wanted
        assert plain.asked() == []
        own.hashes = False
        assert [file.sha256 for file in wanted_open("demo", "1.0", ["3.11"], [own.url()], config)] == [None]
        with pytest.raises(FetchError, match=r"a wheel of demo 1\.0 for Python 3\.13"):
            wanted_open("demo", "1.0", ["3.11", "3.13"], [own.url()], config)


def test_of_several_builds_of_a_release_the_newest_is_taken(plain: PackageIndex) -> None:
    for label in ("", "+git1", "+git2"):
        plain.add(f"demo-1.0{label}-py3-none-any.whl")
    config = config_of(plain.url())
    (file,) = wanted_open("demo", "1.0", ["3.11"], [plain.url()], config)
    assert file.version == "1.0+git2"
    (exact,) = wanted_open("demo", "1.0+git1", ["3.11"], [plain.url()], config)
    assert exact.version == "1.0+git1"


REGISTRY = """
import json, os, sys
from pathlib import Path
from xpubuild.supply.index.config import read_config
from xpubuild.supply.index.wanted import wanted_files
lines = Path(sys.argv[1]).read_text().replace("\\\\\\n", " ").splitlines()
text = next(line for line in lines if line.startswith("ninja=="))
files = wanted_files([(text, ())], ["3.10", "3.12"], read_config(os.environ))
print(json.dumps([(file.filename, file.sha256, file.size, file.url) for file in files]))
"""


@pytest.mark.parametrize("name", ["quickstart-toolchain.txt", "torch-2.13-build.txt"])
def test_the_index_of_this_machine_has_the_shipped_pin_of_ninja(name: str) -> None:
    """Metadata only; in a process of its own, because tests themselves talk to this machine alone."""
    path = recipes_dir() / "requirements" / name
    done = subprocess.run(
        [sys.executable, "-c", REGISTRY, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)
    assert files
    for filename, digest, _, url in files:
        assert filename.startswith("ninja-1.")
        assert "manylinux" in filename
        assert digest in path.read_text()
        assert "@" not in url
