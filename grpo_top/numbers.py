"""Numbers as the screens write them. Unknown is `?` and never 0; what is not a number says so."""

from __future__ import annotations

import math

UNKNOWN = "?"
NOT_FINITE = "not finite"
MINUS = "−"


def share(fraction: float | None) -> str:
    """A fraction in percent: `25%`, `9.1%`, `0%`. Neither 0% nor 100% is said of what is only close to it."""
    if (odd := _odd(fraction)) is not None or fraction is None:
        return odd or UNKNOWN
    percent = abs(fraction) * 100
    sign = MINUS if fraction < 0 else ""
    if percent == 0:
        return "0%"
    if percent < 0.05:
        return f"{sign}<0.1%"
    if percent < 9.95:
        return f"{sign}{percent:.1f}%"
    if 99.5 <= percent < 100 - 1e-9:
        return f"{sign}>99%"
    return f"{sign}{percent:,.0f}%"


def value(number: float | None) -> str:
    """Three significant digits: `0.940`, `0.0683`, `1.55`, `10.3`, `287`, `1,234`, `2.0e-4`, `0`."""
    if (odd := _odd(number)) is not None or number is None:
        return odd or UNKNOWN
    size = abs(number)
    if size == 0:
        return "0"
    if size < 9.995e-4:
        return signed(f"{number:.1e}".replace("e-0", "e-"))
    if size >= 999.5:
        return count(number)
    digits = 2 - math.floor(math.log10(float(f"{size:.3g}")))
    return signed(f"{number:.{max(digits, 0)}f}")


def fixed(number: float | None, decimals: int) -> str:
    """A fixed number of decimals, for columns whose points must line up: `1.00`, `0.061`."""
    if (odd := _odd(number)) is not None or number is None:
        return odd or UNKNOWN
    text = f"{number:,.{decimals}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else signed(text)


def setting(number: float | str | None) -> str:
    """A knob as it is written in a config: `1.0`, `0.15`, `32`, `auto`."""
    if isinstance(number, str):
        return number
    if (odd := _odd(number)) is not None or number is None:
        return odd or UNKNOWN
    if isinstance(number, int):
        return signed(str(number))
    text = f"{number:.6g}"
    return signed(text if any(sign in text for sign in ".e") else f"{text}.0")


def count(number: float | None) -> str:
    """A whole number: `1,920`, from a hundred thousand on `128k`, from a million on `1.2M`."""
    if (odd := _odd(number)) is not None or number is None:
        return odd or UNKNOWN
    size = abs(number)
    if size < 99_999.5:
        text = f"{size:,.0f}"
    elif size < 999_500:
        text = f"{size / 1e3:.0f}k"
    elif size < 9_950_000:
        text = f"{size / 1e6:.1f}M"
    elif size < 999_500_000:
        text = f"{size / 1e6:.0f}M"
    else:
        text = f"{size:.2e}".replace("e+0", "e").replace("e+", "e")
    return f"{MINUS}{text}" if number < 0 and text != "0" else text


def seconds(number: float | None) -> str:
    """A duration: `0.08 s`, `2.1 s`, `40 s`, `20 m`, `3 h 10 m`, `2 d 4 h`."""
    if (odd := _odd(number)) is not None or number is None:
        return odd or UNKNOWN
    sign = MINUS if number < 0 else ""
    size = abs(number)
    if size < 9.95:
        return f"{sign}{float(f'{size:.2g}'):g} s" if size >= 5e-4 else "0 s"
    if size < 59.5:
        return f"{sign}{size:.0f} s"
    minutes = round(size / 60)
    if minutes < 60:
        return f"{sign}{minutes} m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{sign}{hours} h {minutes} m" if minutes else f"{sign}{hours} h"
    days, hours = divmod(hours, 24)
    return f"{sign}{days:,} d {hours} h" if hours else f"{sign}{days:,} d"


def pace(number: float | None) -> str:
    """How long something takes that is compared with itself, such as a step: `0.08 s`, `61 s`, `245 s`, `12.4 m`."""
    if (odd := _odd(number)) is not None or number is None:
        return odd or UNKNOWN
    if abs(number) < 59.5:
        return seconds(number)
    sign = MINUS if number < 0 else ""
    size = abs(number)
    if size < 999.5:
        return f"{sign}{size:.0f} s"
    minutes = size / 60
    return f"{sign}{minutes:.1f} m" if minutes < 99.95 else f"{sign}{minutes / 60:,.1f} h"


def change(difference: float | None, share: bool = False, decimals: int | None = None) -> str:
    """A difference with its sign: `+0.021`, `−0.01`, shares in points `+5pt`, `0` for what rounds to it.

    `decimals` are those of the value beside it; without them three below 10, one below 100, else none.
    """
    if (odd := _odd(difference)) is not None or difference is None:
        return odd or UNKNOWN
    if share:
        difference, decimals = difference * 100, 0
    elif decimals is None:
        size = abs(difference)
        decimals = 3 if size < 10 else 1 if size < 100 else 0
    text = f"{abs(difference):,.{decimals}f}"
    if not text.strip("0.,"):
        return "0"
    return f"{'+' if difference > 0 else MINUS}{text}{'pt' if share else ''}"


def ratio(part: int | None, whole: int | None) -> str:
    """`3/8`."""
    return f"{count(part)}/{count(whole)}"


def part_of(part: int | None, whole: int | None) -> str:
    """`1,920 of 1,920`."""
    return f"{count(part)} of {count(whole)}"


def span(first: int, last: int) -> str:
    """Steps from one to another: `69–87`, `52`."""
    return f"{first}" if first == last else f"{first}–{last}"


def signed(text: str) -> str:
    """The hyphen of a formatted number turned into a minus sign; that of an exponent stays."""
    return MINUS + text[1:] if text.startswith("-") else text


def _odd(number: float | None) -> str | None:
    """What to say of a number that cannot be written with digits, else None."""
    if number is None or math.isnan(number):
        return UNKNOWN
    return NOT_FINITE if math.isinf(number) else None
