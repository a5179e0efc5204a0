"""Results on a terminal: as they are, whatever they say."""

from __future__ import annotations

import io

import pyarrow as pa
from rich.console import Console

from icegate import terminal


def _shown(*values: object, name: str = "body") -> str:
    out = Console(file=io.StringIO(), width=100)
    out.print(terminal.result(pa.table({name: pa.array(values)}), out.width))
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


def test_a_row_that_does_not_fit_is_a_block_and_nothing_is_left_out() -> None:
    out = Console(file=io.StringIO(), width=60)
    wide = pa.table({f"column_{n}": [f"value-{n}", f"other-{n}"] for n in range(20)})
    out.print(terminal.result(wide, out.width))
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 2 * (1 + 20)
    assert lines[1].split() == ["column_0", "value-0"]
    assert lines[-1].split() == ["column_19", "other-19"]


def test_what_is_nested_is_shown_as_json() -> None:
    attributes = pa.array([[("k", "v"), ("n", None)], None], pa.map_(pa.string(), pa.string()))
    link = pa.struct({"trace_id": "string", "flags": "int64"})
    links = pa.array([[{"trace_id": "ab", "flags": 1}], []], pa.list_(link))
    out = Console(file=io.StringIO(), width=100)
    out.print(terminal.result(pa.table({"attributes": attributes, "links": links}), out.width))
    assert '{"k": "v", "n": null}' in out.file.getvalue()  # type: ignore[attr-defined]
    assert '[{"trace_id": "ab", "flags": 1}]' in out.file.getvalue()  # type: ignore[attr-defined]
