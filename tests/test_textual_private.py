"""Textual's private pieces: touched in one file, listed there, and held to the minor version they were tried with."""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from textual.dom import DOMNode

from vtop import faults
from vtop.ui import textual_private
from vtop.ui.app import VtopApp
from vtop.ui.board import Board
from vtop.ui.help import HelpScreen

ROOT = Path(__file__).parents[1]
HOME = ROOT / "vtop" / "ui" / "textual_private.py"
OTHERS = [path for path in sorted((ROOT / "vtop").rglob("*.py")) if path != HOME]
PRIVATE_MODULES = ("textual.drivers", "textual.driver", "textual.constants")
OWN = {"self", "cls"}


def private_imports(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {
        name for name in names if name.startswith("textual.") and ("._" in name or name.startswith(PRIVATE_MODULES))
    }


def private_attributes_of_others(tree: ast.AST) -> set[str]:
    """Names with one underscore that are asked of something else than the object itself."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in OWN)
    }


def own_attributes(of: type) -> set[str]:
    """What a class defines or sets on itself, private names only."""
    tree = ast.parse(dedent(inspect.getsource(of)))
    return {name for name in _named(tree) if name.startswith("_") and not name.startswith("__")}


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_no_other_file_imports_a_private_module_of_textual() -> None:
    found = {path.relative_to(ROOT).as_posix(): private_imports(ast.parse(path.read_text("utf-8"))) for path in OTHERS}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_private_import_would_be_found() -> None:
    lines = (
        "import textual._xterm_parser",
        "from textual.drivers.linux_driver import A",
        "from textual import constants",
    )
    assert [len(private_imports(ast.parse(line))) for line in lines] == [1, 1, 1]


@pytest.mark.parametrize("path", [path for path in OTHERS if path.parent.name == "ui"], ids=lambda path: path.name)
def test_no_other_file_of_the_screen_asks_for_a_private_attribute(path: Path) -> None:
    assert private_attributes_of_others(ast.parse(path.read_text("utf-8"))) == set()


@pytest.mark.parametrize("of", [VtopApp, Board, HelpScreen])
def test_no_private_name_of_a_widget_is_also_one_of_textual_s(of: type[DOMNode]) -> None:
    inherited = {
        name for base in of.__mro__[1:] if base.__module__.startswith("textual.") for name in own_attributes(base)
    }
    assert len(inherited) > 50
    assert own_attributes(of) & inherited == set()


@pytest.mark.parametrize(("module", "owner", "name"), textual_private.PIECES)
def test_every_listed_piece_is_there(module: str, owner: str, name: str) -> None:
    home = __import__(module, fromlist=["_"])
    if not owner:
        assert hasattr(home, name)
        return
    bases = [base for base in getattr(home, owner).__mro__ if base.__module__.startswith("textual.")]
    assert any(hasattr(base, name) or name in set(_named(ast.parse(dedent(inspect.getsource(base))))) for base in bases)


def test_every_private_module_in_the_file_is_listed() -> None:
    modules = {module for module, _, _ in textual_private.PIECES}
    named = private_imports(ast.parse(HOME.read_text("utf-8")))
    assert {name for name in named if not any(name == one or name.startswith(f"{one}.") for one in modules)} == set()


def test_every_private_attribute_in_the_file_is_listed() -> None:
    tree = ast.parse(HOME.read_text("utf-8"))
    asked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert asked - {"_awake", "_waker"} == {name for _, _, name in textual_private.PIECES if name.startswith("_")}


def test_textual_is_held_to_one_minor_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (declared,) = [line for line in project["dependencies"] if line.startswith("textual>=")]
    lowest, _, below = declared.removeprefix("textual>=").partition(",<")
    major, minor = (int(part) for part in lowest.split(".")[:2])
    assert below == f"{major}.{minor + 1}"


def test_a_fault_that_ends_the_screen_leaves_no_traceback_on_the_terminal() -> None:
    app = textual_private.OneLineApp()
    try:
        raise RuntimeError("with a key in it")
    except RuntimeError:
        app._fatal_error()
    assert not app._exit_renderables
    (said,) = faults.told
    faults.told.clear()
    assert said.startswith("vtop itself failed at the screen, which ended (RuntimeError in test_textual_private.py:")
