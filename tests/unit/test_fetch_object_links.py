"""Signing links to objects, without a store."""

import pytest
from pydantic import SecretStr

from pipeline.fetch.errors import FetchError
from pipeline.fetch.object_store import ObjectLinks, ObjectStoreSettings
from pipeline.fetch.web_address import parse_web_address
from schemas.errors import ErrorCode

SETTINGS = ObjectStoreSettings(
    endpoint="http://store.example:9000",
    region="us-east-1",
    access_key_id=SecretStr("key"),
    secret_access_key=SecretStr("secret"),
)


@pytest.fixture
def links() -> ObjectLinks:
    return ObjectLinks(["clips"], SETTINGS)


async def test_a_link_leads_to_the_store_and_keeps_the_secret(links: ObjectLinks) -> None:
    link = await links.sign("s3://clips/new/a b?#%41+ü.mp4")
    address = parse_web_address(link)
    assert (address.host, address.port) == ("store.example", 9000)
    assert address.path_and_query.startswith("/clips/new/a%20b%3F%23%2541%2B%C3%BC.mp4?X-Amz-")
    assert "secret" not in link


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
async def test_the_environment_does_not_move_the_store(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://evil.example")
    assert (await ObjectLinks(["clips"], SETTINGS).sign("s3://clips/a")).startswith("http://store.example:9000/")


@pytest.mark.parametrize(
    "uri",
    [
        *("s3://other/a", "s3://clips", "s3://clips/", "s3:///a", "s3:clips/a", "S3://clips/a", "s3://CLIPS/a"),
        *("s3://clips/../other/a", "s3://clips/a/../../other/b", "s3://clips/./a", "s3://clips//a", "s3://clips/a/"),
        *("s3://evil.example/clips/a", "s3://clips@evil/a", "s3://clips:80/a", "s3://clips/a\r\nb", "s3://clips/a\0"),
        *("s3://clips/" + "a" * 1025, "s3://clips/" + "ü" * 600),
    ],
)
async def test_what_lies_in_no_named_bucket_is_refused(links: ObjectLinks, uri: str) -> None:
    with pytest.raises(FetchError) as caught:
        await links.sign(uri)
    assert caught.value.code is ErrorCode.FETCH_REFUSED


async def test_a_key_with_half_a_character_is_refused(links: ObjectLinks) -> None:
    with pytest.raises(FetchError) as caught:
        await links.sign("s3://clips/\ud800")
    assert caught.value.code is ErrorCode.FETCH_REFUSED
