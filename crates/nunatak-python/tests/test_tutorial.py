"""The tutorial's cells run, and print what the notebook shows. NUNATAK_WRITE=1 stores what they print."""

import ast
import contextlib
import io
import json
import os
from pathlib import Path

import nunatak
import pytest

NOTEBOOK = Path(__file__).parent.parent / "tutorial.ipynb"


def run(source, names):
    """Run a cell; return what it prints, and the text of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    return printed.getvalue(), None if value is None else repr(value)


def outputs(printed, value, count):
    lines = []
    if printed:
        lines.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(True)})
    if value is not None:
        text = {"text/plain": value.splitlines(True)}
        lines.append({"data": text, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return lines


def test_the_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    names, count = {}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        found = outputs(*run("".join(cell["source"]), names), count)
        if "NUNATAK_WRITE" in os.environ:
            cell["outputs"], cell["execution_count"] = found, count
        assert cell["outputs"] == found, "".join(cell["source"])
    assert count > 10
    if "NUNATAK_WRITE" in os.environ:
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def test_the_tutorial_is_checked():
    assert run("1 + 1", {}) == ("", "2") and run("print(1)\nNone", {}) == ("1\n", None)
    with pytest.raises(ZeroDivisionError):
        run("1 / 0", {})
    assert nunatak.__version__
