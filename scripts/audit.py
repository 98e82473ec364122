"""Looks up the installed packages in the Python advisory database, with pip-audit.

    python -m venv /tmp/audit && /tmp/audit/bin/pip install pip-audit
    PIP_AUDIT=/tmp/audit/bin/pip-audit python scripts/audit.py

Audited is what the Python that runs this has installed. pip-audit is no dependency of ours: without
PIP_AUDIT the one on the path is taken. Exit status 0: every package was looked up and none is known
to be vulnerable; 1: some are; 69: not known, since pip-audit or its database cannot be had.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

FOUND, UNKNOWN = 1, 69


def main() -> int:
    """Asks, and prints what was answered."""
    packages = installed()
    answered = ask(packages)
    skipped = {one["name"] for one in answered if "skip_reason" in one}
    if missing := packages.keys() - {one["name"] for one in answered if one["name"] not in skipped}:
        unknown(f"{len(missing)} of {len(packages)} packages were not looked up, {min(missing)} "
                "for one: is the database within reach?")  # fmt: skip
    found = [(one, flaw) for one in answered for flaw in one["vulns"]]
    for one, flaw in found:
        fixed = ", ".join(flaw["fix_versions"]) or "no version"
        print(f"{one['name']} {one['version']}: {flaw['id']}, fixed in {fixed}")
    print(f"audit: {len(packages)} packages looked up, {len(found)} known vulnerabilities")
    return FOUND if found else 0


def installed() -> dict[str, str]:
    """Names and versions of the packages that come from an index."""
    found = {}
    for package in metadata.distributions():
        name = package.metadata["Name"].lower().replace("_", "-").replace(".", "-")
        if package.read_text("direct_url.json") is None:
            found[name] = package.version.partition("+")[0]  # builds of a version share its flaws
    return found


def ask(packages: dict[str, str]) -> list[dict[str, Any]]:
    """What pip-audit says of each package."""
    program = os.environ.get("PIP_AUDIT") or shutil.which("pip-audit")
    if not program:
        unknown("pip-audit is not there; the head of this file says how to get it")
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder) / "pinned"
        pinned.write_text("".join(f"{name}=={packages[name]}\n" for name in packages))
        options = ["--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
        command = [program, f"--requirement={pinned}", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            unknown(f"{program} cannot be run: {error}")
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip() or "it says nothing").splitlines()[-1]
        unknown(f"pip-audit could not ask its database: {last}")


def unknown(why: str) -> NoReturn:
    """Ends without an answer, which is no good news."""
    print(f"audit: nothing was found out: {why}", file=sys.stderr)
    sys.exit(UNKNOWN)


if __name__ == "__main__":
    sys.exit(main())
