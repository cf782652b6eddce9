"""Puts a fetcher together from the settings."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pipeline.fetch.addresses import AddressPolicy, AnyAddress
from pipeline.fetch.cache import ClipCache
from pipeline.fetch.fetcher import Fetcher
from pipeline.fetch.limits import FetchLimits
from pipeline.fetch.names import Lookup, SystemLookup
from pipeline.fetch.object_store import ObjectLinks, ObjectStoreSettings
from pipeline.fetch.web import WebClient
from pipeline.settings import Settings
from schemas.errors import ConfigurationError, ErrorCode


@asynccontextmanager
async def open_fetcher(settings: Settings, *, lookup: Lookup | None = None) -> AsyncIterator[Fetcher]:
    """Yield a fetcher, and close it afterwards. ``lookup`` replaces the machine's own way to find a host's addresses.

    Raises ``ConfigurationError``.
    """
    limits = FetchLimits(
        max_bytes=settings.max_file_bytes, timeout_s=settings.fetch_timeout_s, cache_bytes=settings.fetch_cache_bytes
    )
    async with AsyncExitStack() as stack:
        if lookup is None:
            lookup = SystemLookup()
            stack.callback(lookup.close)
        web = WebClient(
            policy=_address_policy(settings),
            ports=frozenset(settings.fetch_ports),
            max_redirects=limits.max_redirects,
            lookup=lookup,
            limits=limits,
        )
        # The object store is the installation's own: it may lie anywhere, but it may not send us elsewhere.
        store = WebClient(policy=AnyAddress(), ports=None, max_redirects=0, lookup=lookup, limits=limits)
        fetcher = Fetcher(
            roots=_roots(settings),
            web=await stack.enter_async_context(web),
            store=await stack.enter_async_context(store),
            links=_object_links(settings),
            cache=ClipCache(settings.cache_dir / "clips", max_bytes=limits.cache_bytes),
            limits=limits,
        )
        yield await stack.enter_async_context(fetcher)


def _address_policy(settings: Settings) -> AddressPolicy:
    try:
        return AddressPolicy.parse(settings.fetch_allow_private)
    except ValueError as error:
        raise _wrong("FETCH_ALLOW_PRIVATE", str(error)) from error


def _roots(settings: Settings) -> list[bytes]:
    for root in settings.fetch_roots:
        if not root.is_absolute():
            raise _wrong("FETCH_ROOTS", f"{root} must be an absolute path")
    return [os.fsencode(root) for root in settings.fetch_roots]


def _object_links(settings: Settings) -> ObjectLinks:
    store = ObjectStoreSettings(
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=settings.s3_secret_access_key,
    )
    try:
        return ObjectLinks(settings.s3_buckets, store)
    except ValueError as error:
        raise _wrong("S3_ENDPOINT", str(error)) from error


def _wrong(name: str, message: str) -> ConfigurationError:
    return ConfigurationError(ErrorCode.BAD_SETTING, f"HALFSECOND_{name}: {message}")
