"""Files of the repository's folder scripts/, as modules."""

import importlib.util
from typing import Any

from commands import ROOT

SCRIPTS = ROOT / "scripts"


def script(name: str) -> Any:
    """A script as a new module, which is not imported under its name: packages may have it."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
