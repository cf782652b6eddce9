"""Words and numbers for people: times, languages, stage endings, and text that is safe to look at."""

import unicodedata

from markupsafe import Markup

from schemas.result import ResultStatus, StageStatus

NAME_CHARS = 160
"""A heading longer than this pushes everything else off a phone's screen."""

STATUS_TITLES = {
    ResultStatus.COMPLETE: "Complete",
    ResultStatus.PARTIAL: "Partial",
    ResultStatus.EXPIRED: "Expired",
    ResultStatus.REJECTED: "Rejected",
}

STAGE_WORDS = {
    StageStatus.OK: "ok",
    StageStatus.ABSENT: "absent",
    StageStatus.SKIPPED: "skipped",
    StageStatus.TIMED_OUT: "timed out",
    StageStatus.FAILED: "failed",
}

LANGUAGES = {
    "ar": "Arabic", "bn": "Bengali", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "ms": "Malay", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

_SCRIPTS = (("HIRAGANA", "ja"), ("KATAKANA", "ja"), ("HANGUL", "ko"), ("CJK", "zh"))

_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Control characters to their visible pictures. HTML forbids most of them and a terminal may obey them."""


def showable(value: object) -> object:
    """Return ``value`` fit for an HTML file: text without control characters or halves of surrogate pairs.

    Everything that a template prints passes through here (markup is left alone).
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").translate(_CONTROLS)


def one_line(name: str) -> str:
    """Return ``name`` on one line, with line breaks made visible and the middle of a very long one left out."""
    line = str(showable(name)).replace("\n", "␊").replace("\t", "␉").strip() or "(no name)"
    if len(line) <= NAME_CHARS:
        return line
    half = NAME_CHARS // 2
    return f"{line[:half]}…{line[-half:]}"


def clock(seconds: float) -> str:
    """Return ``m:ss.t``, or ``h:mm:ss`` from an hour on."""
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths, 600)
    if minutes < 60:
        return f"{minutes}:{rest // 10:02d}.{rest % 10}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest // 10:02d}"


def short_clock(seconds: float) -> str:
    """Return ``clock`` without a decimal that says nothing."""
    return clock(seconds).removesuffix(".0")


def span(start_s: float, end_s: float) -> str:
    """Return a stretch of time, or one instant when both ends read the same."""
    first, last = clock(start_s), clock(end_s)
    return first if first == last else f"{first} – {last}"


def milliseconds(value: float) -> str:
    """Return a duration as people read it: ``412 ms``, ``1.24 s``."""
    return f"{value:.0f} ms" if value < 999.5 else f"{value / 1000:.2f} s"


def language_name(code: str | None) -> str:
    """Return the English name of an ISO 639-1 code, or the code itself."""
    return LANGUAGES.get(code, code) if code else "unknown language"


def guess_lang(text: str) -> str:
    """Return a ``lang`` for the script of ``text`` so that the right font is taken; empty when it does not matter."""
    names = [unicodedata.name(char, "") for char in text[:200] if ord(char) > 0x2E80]
    return next((lang for script, lang in _SCRIPTS if any(name.startswith(script) for name in names)), "")


def count_of(number: int, noun: str) -> str:
    """Return ``1 frame``, ``4 frames``, ``2 boxes``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('s', 'x')) else 's'}"
