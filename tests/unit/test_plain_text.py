"""Words from outside cannot steer a terminal or disguise themselves."""

import pytest

from pipeline.plain_text import plain


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("a\r\nb\tc\x00d\x07", "a b cd"),
        ("abc\u202etxt.exe", "abctxt.exe"),
        ("\udcff\udcfebad", "bad"),
        ("语音识别 第三讲", "语音识别 第三讲"),
        ("👩\u200d🚀 ok", "👩\u200d🚀 ok"),
        ("שלום", "שלום"),
        ("  \u2028 ", ""),
    ],
)
def test_what_is_left_of_it(given, shown):
    assert plain(given) == shown


def test_the_length_is_bounded():
    assert len(plain("x" * 10_000)) == 4000
