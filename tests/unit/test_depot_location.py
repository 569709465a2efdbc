"""What --mirror and --store name: a folder, or a URL; never a secret in what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import UsageError
from xpubuild.supply.depot.location import Location, parse_mirror


@pytest.mark.parametrize(
    ("text", "url", "link"),
    [
        ("http://Mirror.Site:80/xpu/", "http://mirror.site/xpu", None),
        ("HTTPS://mirror.site:8443", "https://mirror.site:8443", None),
        (
            "https://me:p%40ss@mirror.site/x%20y",
            "https://mirror.site/x%20y",
            "https://me:p%40ss@mirror.site/x%20y",
        ),
        ("http://[::1]:8080/m", "http://[::1]:8080/m", None),
    ],
)
def test_a_url_is_read(text: str, url: str, link: str | None) -> None:
    found = parse_mirror(text)
    assert isinstance(found, Location)
    assert str(found) == found.url == url
    assert found.link == (link or url)
    assert "p%40ss" not in f"{found!r}{found}{found.folder_name}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/srv/m", "/srv/m"),
        ("file:///srv/a%20b", "/srv/a b"),
        ("file://localhost/m", "/m"),
        ("./a://b", "a:/b"),
    ],
)
def test_a_folder_is_a_folder(text: str, path: str) -> None:
    assert parse_mirror(text) == Path(path).absolute()


@pytest.mark.parametrize(
    "text",
    [
        "ftp://me:secret@host/m", "git+ssh://host/m", "http:///m", "http://host:port/m", "https://h/m?token=secret",
        "https://h/m#x", "http://a b/m", "file://other/m", "ssh://me:secret@host/m", "http://u:secret/x@h:port/m",
        "http://ho\nst/m", "http://[::1/m", "http:/host/m", "http:/me:secret@host/m", "file:///m?x", "file:///m#x",
        "file:///m%00x",
    ],
)  # fmt: skip
def test_what_is_no_mirror_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mirror(text)
    assert caught.value.exit_code == 2
    assert "secret" not in f"{caught.value.to_json()}"
