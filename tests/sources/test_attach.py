"""The command line on record: everything that was asked, no secret."""

from __future__ import annotations

import pytest

from vtop.sources.attach import struck_out


@pytest.mark.parametrize(
    "secret",
    [
        ("--api-key", "s3cret"),
        ("--api-key=s3cret",),
        ("--header", "X: s3cret"),
        ("--header=X: s3cret",),
        ("-H", "X: s3cret"),
        ("-HX: s3cret",),
        ("-H=X: s3cret",),
        ("--url", "http://me:s3cret@host:8000"),
        ("--url=http://me:s3cret@host:8000",),
    ],
)
def test_no_way_of_writing_a_secret_gets_it_on_record(secret: tuple[str, ...]) -> None:
    words = struck_out((*secret, "--record", "run.jsonl"))
    assert "s3cret" not in " ".join(words)
    assert words[-2:] == ("--record", "run.jsonl")
