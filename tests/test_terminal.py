"""Results on a terminal: as they are, whatever they say."""

from __future__ import annotations

import io

import pyarrow as pa
from rich.console import Console

from icegate import terminal


def _shown(*values: object, name: str = "body") -> str:
    out = Console(file=io.StringIO(), width=100)
    out.print(terminal.result(pa.table({name: pa.array(values)})))
    return out.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_text_is_never_taken_for_markup() -> None:
    shown = _shown("[error] disk [bold]full[/bold]", "no such file [/etc/x]", ":smile:", name="[red]body")
    for each in ("[red]body", "[error] disk [bold]full[/bold]", "no such file [/etc/x]", ":smile:"):
        assert each in shown


def test_control_characters_are_shown_and_not_sent() -> None:
    shown = _shown("\x1b[2Jgone", "bell\x07", "\x9b31m", "two\nlines")
    assert "\x1b" not in shown
    assert "\\x1b[2Jgone" in shown
    assert "bell\\x07" in shown
    assert "\\x9b31m" in shown
    assert "two" in shown


def test_null_is_empty_and_numbers_are_to_the_right() -> None:
    shown = _shown(1, None, 1000, name="a number")
    assert "None" not in shown
    assert "       1 " in shown
