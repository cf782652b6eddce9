"""Taking links apart that strangers wrote."""

import pytest

from pipeline.fetch.errors import FetchError
from pipeline.fetch.web_address import follow, parse_web_address
from schemas.errors import ErrorCode


@pytest.mark.parametrize(
    ("uri", "rebuilt"),
    [
        ("http://example.com", "http://example.com:80/"),
        ("HTTPS://EXAMPLE.com/a/b%20c.mp4?x=%2F&y=1#t=3", "https://example.com:443/a/b%20c.mp4?x=%2F&y=1"),
        ("http://minio_1:9000/x", "http://minio_1:9000/x"),
        ("http://8.8.8.8/x", "http://8.8.8.8:80/x"),
        ("http://[2001:0DB8::1]:81/x", "http://[2001:db8::1]:81/x"),
        ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]:80/"),
    ],
)
def test_a_link_is_rebuilt_from_its_parts(uri: str, rebuilt: str) -> None:
    assert str(parse_web_address(uri)) == rebuilt


def test_an_address_instead_of_a_name_is_told_apart() -> None:
    assert str(parse_web_address("http://127.0.0.1/").address) == "127.0.0.1"
    assert str(parse_web_address("http://[::1]/").address) == "::1"
    assert parse_web_address("http://localhost/").address is None


@pytest.mark.parametrize(
    "uri",
    [
        *("ftp://a/", "file:///etc/passwd", "//a/b", "http:", "http://", "http:///x", "http:/x", "http:a"),
        *("http://user@a/", "http://user:pw@a/", "http://a@127.0.0.1/", "http://@a/", "http://a%40b@c/"),
        *("http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.0.0.01/"),
        *("http://0x7f000001/", "http://1.2.3.4.5/", "http://a.0x/", "http://a.1/", "http://256.1.1.1/"),
        *("http://[fe80::1%25eth0]/", "http://[::1", "http://[::g]/", "http://[v1.a]/"),
        *("http://a b/", "http://a\\@b/", "http://a\r\nHost:b/", "http://a\t/", "http://\u2460.com/", "http://a/\x00"),
        *(
            "http://a..b/",
            "http://-a/",
            "http://a-/",
            "http://a.b./",
            "http://%61/",
            "http://a;b/",
            "http://" + "a" * 64,
        ),
        *("http://a:0x50/", "http://a:99999/", "http://a:-1/", "http://a:80:80/", "http://a/" + "x" * 9000),
    ],
)
def test_a_crooked_link_is_refused(uri: str) -> None:
    with pytest.raises(FetchError) as caught:
        parse_web_address(uri)
    assert caught.value.code is ErrorCode.FETCH_REFUSED
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "https://a.example:443/b"),
        ("c?d=1", "https://a.example:443/x/c?d=1"),
        ("//b.example/c", "https://b.example:443/c"),
        ("https://b.example/", "https://b.example:443/"),
    ],
)
def test_a_redirect_is_read_from_where_it_stands(location: str, target: str) -> None:
    assert str(follow(parse_web_address("https://a.example/x/y"), location)) == target


@pytest.mark.parametrize(
    "location", ["http://a.example/", "file:///etc/passwd", "https://u:p@b/", "https://[", "/\u00e9"]
)
def test_a_redirect_is_held_to_the_same_rules_and_stays_encrypted(location: str) -> None:
    with pytest.raises(FetchError) as caught:
        follow(parse_web_address("https://a.example/"), location)
    assert caught.value.code is ErrorCode.FETCH_REFUSED
