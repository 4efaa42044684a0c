"""Sizes, rates and times with units: what is read, and what is refused with which words."""

import re

import pytest

from scribe_spark.config.fields import fields_of
from scribe_spark.config.section import Rate, Section, Size, Time
from scribe_spark.core import units


@pytest.mark.parametrize(
    ("quantity", "text", "value"),
    [
        ("size", "128KB", 128_000),
        ("size", "128 kB", 128_000),
        ("size", "128KiB", 131_072),
        ("size", " 1.5MB ", 1_500_000),
        ("size", "600 bytes", 600),
        ("size", "16 kibibyte", 16_384),
        ("size", "1TB", units.MOST_BYTES),
        ("rate", "50Mbit/s", 50_000_000),
        ("rate", "100 Mbit", 100_000_000),
        ("rate", "1 Gbit", 10**9),
        ("rate", "10 Mibit", 10 * 2**20),
        ("rate", "81920 Kibit", 81_920 * 1024),
        ("rate", "1 megabit", 10**6),
        ("rate", "9600bps", 9_600),
        ("rate", "1MB/s", 8_000_000),
        ("time", "10 ms", 10_000),
        ("time", "0.001ms", 1),
        ("time", "2000 ns", 2),
        ("time", "3 \u00b5s", 3),
        ("time", "2 min", 120_000_000),
        ("time", "0s", 0),
    ],
)
def test_a_text_is_a_whole_number_of_base_units(quantity, text, value):
    assert units.parse(quantity, text, least=0) == value
    assert units.parse(quantity, units.canonical(quantity, value)) == value


@pytest.mark.parametrize(
    ("quantity", "text", "words"),
    [
        ("size", "128", "must have a unit, such as 128KB"),
        ("size", 128_000, "must have a unit, such as 128KB"),
        ("rate", "50", "must have a unit, such as 50Mbit/s"),
        ("time", 5.0, "must have a unit, such as 5ms"),
        ("time", "0", "must have a unit, such as 5ms"),
        ("size", "0KB", "must be above 0"),
        ("rate", "-5Mbit/s", "must be above 0"),
        ("time", "-5ms", "must be above 0"),
        ("rate", "50mbit/s", "number and a unit (Tbit/s, Gbit/s, Mbit/s, kbit/s, bit/s)"),
        ("rate", "50MB", "number and a unit"),
        ("size", "50Mbit", "number and a unit"),
        ("size", "KB", "number and a unit"),
        ("size", "1e3KB", "number and a unit"),
        ("size", "\u0661KB", "number and a unit"),
        ("size", None, "number and a unit"),
        ("size", "1" * 40 + "KB", "number and a unit"),
        ("size", "0.0001KB", "whole number of bytes"),
        ("time", "1 ns", "whole number of microseconds"),
        ("time", "1.5us", "whole number of microseconds"),
        ("size", "2TB", "at most 1TB"),
        ("rate", "1001Tbit/s", "at most 1000Tbit/s"),
        ("time", "278h", "at most 1000000s"),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_would_do(quantity, text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        units.parse(quantity, text, least=1)


class Sent(Section):
    """A section of fields with units."""

    size: Size | None = None
    up: Rate = "50Mbit/s"
    wait: Time | None = "5ms"


def test_a_field_takes_units_and_keeps_one_spelling():
    sent = Sent(size="128000 B", up="0.05Gbit/s")
    assert sent == Sent(size="128KB")
    assert sent.flat() == {"size": "128KB", "up": "50Mbit/s", "wait": "5ms"}
    assert Sent(wait="0ms").wait == "0us"
    kinds = {name: field.kind.name for name, field in fields_of(Sent, "sent").items()}
    assert kinds == {"size": "size", "up": "rate", "wait": "time"}
