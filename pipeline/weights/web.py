"""Downloads over http(s) that resume where they broke off."""

import http.client
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pipeline.weights.errors import FetchFailed
from pipeline.weights.files import LongerThanPinned, OnBytes, copy_capped

STALL_S: Final = 30.0  # no byte for this long: the connection is taken for dead
TRIES: Final = 5
PAUSE_S: Final = 1.0  # before the second try; doubles

_BROKEN = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def download(
    url: str,
    target: Path,
    *,
    cap_bytes: int,
    expected_bytes: int | None,
    on_bytes: OnBytes,
    pause_s: float = PAUSE_S,
) -> None:
    """Append to ``target`` what it still lacks of ``url``; dropped connections are resumed.

    Raises ``FetchFailed`` for a refusal, for more than ``cap_bytes``, and when ``TRIES`` tries without a single new
    byte were not enough. What has arrived stays in ``target`` for the next time.
    """
    failures = 0
    while True:
        before = _size(target)
        try:
            if _fetch_rest(url, target, cap_bytes=cap_bytes, expected_bytes=expected_bytes, on_bytes=on_bytes):
                return
            reason = "the connection ended early"
        except LongerThanPinned as error:
            target.unlink()
            raise FetchFailed(f"{url} offers {error}: not the pinned file") from error
        except _BROKEN as error:
            reason = _refusal_or_reason(error, url, target)
        failures = 0 if _size(target) > before else failures + 1
        if failures == TRIES:
            raise FetchFailed(f"{url}: {reason}; run the same command again to continue", retryable=True)
        time.sleep(pause_s * 2 ** max(0, failures - 1))


def _fetch_rest(url: str, target: Path, *, cap_bytes: int, expected_bytes: int | None, on_bytes: OnBytes) -> bool:
    """Make one request. Returns whether the file is whole now."""
    have = _size(target)
    if expected_bytes is not None and have == expected_bytes:
        on_bytes(have)
        return True
    if have > cap_bytes:
        target.unlink()
        have = 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (scheme checked by check_url)
    with urllib.request.urlopen(request, timeout=STALL_S) as response:  # noqa: S310
        kept = have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
        announced = response.headers.get("Content-Length")
        with target.open("ab" if kept else "wb") as out:
            got = copy_capped(response, out, cap_bytes - kept, on_bytes=lambda n: on_bytes(kept + n))
    whole = expected_bytes if expected_bytes is not None else kept + int(announced or got)
    return kept + got == whole


def _refusal_or_reason(error: Exception, url: str, target: Path) -> str:
    """Return why a try failed; raises ``FetchFailed`` when another try would not help."""
    if not isinstance(error, urllib.error.HTTPError):
        return str(error)
    error.close()
    reason = f"the server answers {error.code} {error.reason}"
    if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        target.unlink()  # what we hold is no beginning of that file: start again
    elif error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR and error.code != http.HTTPStatus.TOO_MANY_REQUESTS:
        raise FetchFailed(f"{url}: {reason}") from error
    return reason


def check_url(url: str) -> str:
    """Return ``url``. Raises ``FetchFailed`` unless it is http(s), names a host and carries no password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises when it is no number)
    except ValueError as error:
        raise FetchFailed(f"no web address: {error}") from error
    if parts.username or parts.password:
        raise FetchFailed(f"leave user and password out of the URL of {parts.hostname}: they would end up in logs")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise FetchFailed(f"weights come from a folder or an http(s) URL, not from {parts.scheme}:")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise FetchFailed(f"percent-encode the odd characters in the URL of {parts.hostname}")
    return url


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
