"""The command lines that the documents and --help print, and a folder in which the files they name are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "recordings" / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^ *```(?:sh|shell|bash)?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_OPERATORS = {"|", ";", "&&", "||", "&", ">", ">>", "<", "(", ")"}
_SAMPLES = {"attached_$run": "attached_seqs10", "$run": "sweep_c64", "$s": "33"}  # what a loop's variable stands for
# The reader's own files, by the name that the documents give them: the recording that takes their place.
STANDINS = {
    **dict.fromkeys(("before", "a1", "a2", "a3", "A"), "overload"),
    **dict.fromkeys(("after", "b1", "b2", "B"), "overload_seqs10"),
    **dict.fromkeys(("sweep", "all", "c1", "c2", "c4"), "sweep_c64"),
    "run": "overload_loaded",
    "gpu7": "repeat_first",
    "gpu8": "repeat_second",
}


def printed() -> Iterator[tuple[str, str]]:
    """(where, line) of each command line of vtop's in a fence of a document or an example of --help."""
    for document in DOCUMENTS:
        for fence in _FENCE.findall(document.read_text(encoding="utf-8")):
            for line in fence.replace("\\\n", " ").splitlines():
                if re.match(r" *(\$ )?vtop( |$)", line):
                    yield document.name, line.strip().removeprefix("$ ")
    from vtop.cli import main

    for verb, command in [("vtop", main), *((f"vtop {name}", one) for name, one in _all(main))]:
        for line in (command.help or "").splitlines():
            if re.match(r" +vtop( |$)", line):
                yield f"{verb} --help", re.split(r" {2,}", line.strip())[0]


def _all(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", one) for below, one in _all(command))


def words_of(line: str) -> list[str]:
    """What vtop is given of a line: without comment, pipe and redirection, a loop's variables filled in."""
    for variable, sample in _SAMPLES.items():
        line = line.replace(variable, sample)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    for word in lexer:
        if word in _OPERATORS or word.startswith("#"):
            break
        words.append(word)
    return words[1:]


def furnish(folder: Path) -> None:
    """Puts the files that the documents speak of into an empty folder."""
    for name, recording in STANDINS.items():
        target = ROOT / "recordings" / f"{recording}.jsonl.gz"
        for called in (name, f"{name}.jsonl", *([f"{name}.jsonl.gz"] if name == "run" else [])):
            if called != "sweep":  # the shipped one
                (folder / called).symlink_to(target)
    (folder / "overload.jsonl").symlink_to(ROOT / "recordings" / "overload.jsonl.gz")
    (folder / "config.json").symlink_to(ROOT / "tests" / "plan" / "configs" / "qwen2.5-7b.json")
    (folder / "rules.toml").write_text('[no-preemption]\nthat = "preemptions == 0"\n')
    for name in ("tests", "recordings"):
        (folder / name).symlink_to(ROOT / name)
