"""The guards hold for whatever is written into a job."""

import os
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from pipeline.fetch.addresses import AddressPolicy
from pipeline.fetch.errors import FetchError
from pipeline.fetch.local_path import below_root, parse_file_uri
from pipeline.fetch.open_clip import open_below
from pipeline.fetch.web_address import follow, parse_web_address
from schemas.errors import MediaError
from tests.fetching import open_descriptors

ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.integers(0, 2**32 - 1).map(lambda n: IPv6Address((0xFFFF << 32) | n)),
    st.integers(0, 2**125 - 1).map(lambda n: IPv6Address((1 << 125) | n)),
)
WEB_TEXT = st.text(alphabet="htps:/?#[]@.%0127fxa1e\\ \t\r\n\0\u00e9-_;,+&=ZL", max_size=60)
NAMES = st.sampled_from(
    (
        b"root",
        b"folder",
        b"clip",
        b"secret",
        b"..",
        b".",
        b"",
        b"out",
        b"up",
        b"self",
        b"loop",
        b"%2e%2e",
        b"\xff",
        b"\0",
    )
)


@given(ADDRESSES)
def test_what_is_not_global_is_never_admitted(address: IPv4Address | IPv6Address) -> None:
    if AddressPolicy().admits(address):
        target = address.ipv4_mapped if isinstance(address, IPv6Address) and address.ipv4_mapped else address
        assert target.is_global
        assert not target.is_multicast
        assert not target.is_loopback


@given(st.one_of(WEB_TEXT, WEB_TEXT.map("http://".__add__), st.text(max_size=40).map("http://a".__add__)))
def test_two_parsers_agree_on_every_link_that_is_let_through(uri: str) -> None:
    with suppress(FetchError):
        address = parse_web_address(uri)
        again = URL(str(address), encoded=True)
        assert (again.scheme, again.host, again.port) == (address.scheme, address.host, address.port)
        assert again.user is None
        assert again.password is None
        assert str(address).isascii()
        assert str(address).isprintable()
        assert parse_web_address(str(address)) == address
        if address.address is None:  # then nothing takes it for an address without looking it up
            with pytest.raises(ValueError, match="does not appear to be"):
                ip_address(address.host)


@given(WEB_TEXT)
def test_a_redirect_leads_to_a_link_or_is_refused(location: str) -> None:
    with suppress(FetchError):
        assert follow(parse_web_address("https://a.example/b/c"), location).scheme == "https"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with every way out of it that links offer. Files inside hold ``inside``."""
    top = tmp_path_factory.mktemp("tree")
    (top / "secret").write_bytes(b"outside")
    (top / "root" / "folder").mkdir(parents=True)
    (top / "root" / "clip").write_bytes(b"inside")
    (top / "root" / "folder" / "clip").write_bytes(b"inside")
    for place in (top / "root", top / "root" / "folder"):
        (place / "out").symlink_to(top / "secret")
        (place / "up").symlink_to(top)
        (place / "self").symlink_to(".")
        (place / "loop").symlink_to("loop")
    return top


def plain(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def encoded_all(path: bytes) -> str:
    return "".join(f"%{byte:02x}" for byte in path)


@given(
    names=st.lists(NAMES, max_size=6),
    write=st.sampled_from((plain, quote_from_bytes, encoded_all)),
    prefix=st.sampled_from(("file:", "file://", "file://localhost", "file:///", "FILE:")),
    rooted=st.booleans(),
)
def test_nothing_outside_the_roots_is_ever_opened(
    tree: Path, names: list[bytes], write: Callable[[bytes], str], prefix: str, rooted: bool
) -> None:
    start = os.fsencode(tree) + (b"/root" if rooted else b"")
    uri = prefix + write(start + b"/" + b"/".join(names))
    before = open_descriptors()
    with suppress(MediaError), open_below(*below_root(parse_file_uri(uri), [os.fsencode(tree / "root")])) as clip:
        assert clip.path.read_bytes() == b"inside"
    assert open_descriptors() == before


@given(st.text(max_size=80))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    with suppress(FetchError):
        names = parse_file_uri("file:///" + text)
        assert not {b"", b".", b".."} & set(names)
        assert not any(b"/" in name or b"\0" in name for name in names)
