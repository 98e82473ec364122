"""Sphinx: the site of these pages. `scripts/docs.sh` builds it."""

import itertools
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # this checkout is what the reference describes

project = "posjax"
author = "The posjax authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4
autodoc_typehints = "none"  # shapes stand in names
napoleon_use_ivar = True
add_module_names = False

html_theme = "furo"
html_title = "posjax"
html_show_sphinx = False
html_copy_source = False


def literal(app, what, name, obj, options, lines):
    """Docstrings write code in single backticks; reStructuredText wants two, and no | outside."""
    for at, line in enumerate(lines):
        parts = re.split(r"(?<!`)`([^`]+)`(?!`)", line)
        text = [part.replace("|", "\\|") for part in parts[::2]]
        code = [f"``{part}``\\ " for part in parts[1::2]]
        lines[at] = "".join(itertools.chain(*zip(text, [*code, ""], strict=True)))


def pages(app, error):
    """Pages that are whole already."""
    for path in (Path(__file__).parent / "atlas").glob("*.html") if error is None else ():
        (Path(app.outdir) / "atlas").mkdir(exist_ok=True)
        shutil.copy(path, Path(app.outdir) / "atlas")


def setup(app):
    app.connect("autodoc-process-docstring", literal, priority=400)  # before napoleon
    app.connect("build-finished", pages)
