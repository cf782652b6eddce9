"""``s3:`` references, turned into links that carry a signature and a short life.

The library signs; the bytes come the way all links come, under the same limits. Only buckets that the installation
named are opened: a producer must not read with our credentials whatever they open.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store
from pydantic import SecretStr

from pipeline.fetch.errors import failed, refused

if TYPE_CHECKING:
    from obstore.store import S3Config  # exists for type checkers only

_MAX_KEY_BYTES: Final = 1024
_VALID_FOR: Final = timedelta(minutes=5)  # clocks may differ by as much; the link never leaves this process
_REFERENCE: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)", re.DOTALL)
_UNSIGNABLE: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|(?:^|/)\.{1,2}(?:/|$)|//|/$|^/")


@dataclass(frozen=True, slots=True)
class ObjectStoreSettings:
    """Which store, and as whom. Without keys, those of the environment, the pod or the instance count."""

    endpoint: str | None
    region: str
    access_key_id: SecretStr | None
    secret_access_key: SecretStr | None


class ObjectLinks:
    """Signs links to objects in ``buckets``."""

    def __init__(self, buckets: Sequence[str], settings: ObjectStoreSettings) -> None:
        """Raise ``ValueError`` for settings that the library refuses."""
        try:
            self._stores: Mapping[str, S3Store] = {bucket: _open(bucket, settings) for bucket in buckets}
        except BaseError as error:
            raise ValueError(f"the object store's settings: {error}") from error

    def check(self, uri: str) -> tuple[S3Store, str]:
        """Return the bucket and the key of ``s3://bucket/key``. The key stands there as it is, with nothing encoded.

        Raises ``FetchError`` FETCH_REFUSED.
        """
        reference = _REFERENCE.fullmatch(uri)
        if reference is None:
            raise refused("not a reference like s3://bucket/key")
        bucket, key = reference.groups()
        if _UNSIGNABLE.search(key) or len(key.encode()) > _MAX_KEY_BYTES:
            raise refused("a key with empty or dotted parts or control characters, or too long")
        if bucket not in self._stores:
            raise refused("not in a bucket that clips may be read from")
        return self._stores[bucket], key

    async def sign(self, uri: str) -> str:
        """Return a link to the object. Raises ``FetchError`` FETCH_REFUSED, or FETCH_FAILED without credentials."""
        store, key = self.check(uri)
        try:
            return await obstore.sign_async(store, "GET", key, _VALID_FOR)
        except BaseError:
            raise failed("the object store's credentials cannot be had", retryable=True) from None


def _open(bucket: str, settings: ObjectStoreSettings) -> S3Store:
    config: S3Config = {"region": settings.region}
    if settings.endpoint is not None:
        config["aws_endpoint_url_s3"] = settings.endpoint  # the one name that no variable of the environment outranks
    if settings.access_key_id is not None:
        config["access_key_id"] = settings.access_key_id.get_secret_value()
    if settings.secret_access_key is not None:
        config["secret_access_key"] = settings.secret_access_key.get_secret_value()
    return S3Store(bucket, config=config, client_options={"allow_http": True})
