"""Asks pip-audit what is known against the packages of an environment: `audit.py SITE_PACKAGES`.

What could not be asked for is said, and is no failure: advisories lie on a network that is not everywhere. The minimums
in pyproject.toml hold everywhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SECONDS = 180


def main() -> int:
    """1 where something is known, and only then."""
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--format=json", "--path", sys.argv[1]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
        report = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        sys.stdout.write("audit skipped: no advisories can be asked for here\n")
        return 0
    lines, known = said(report)
    sys.stdout.write("\n".join(lines) + "\n")
    return int(known)


def said(report: dict[str, Any]) -> tuple[list[str], bool]:
    """What to print of pip-audit's report, and whether anything is known against a package."""
    packages = report.get("dependencies", [])
    asked = [package for package in packages if "vulns" in package]
    known = [(package, vulnerability) for package in asked for vulnerability in package["vulns"]]
    lines = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"better in {', '.join(vulnerability.get('fix_versions', ())) or 'no version yet'}"
        for package, vulnerability in known
    ]
    skipped = (
        ""
        if len(asked) == len(packages)
        else f"; skipped {len(packages) - len(asked)} that it knows nothing of"
    )
    lines.append(
        f"audit: {len(asked)} of {len(packages)} packages asked for, {len(known)} advisories{skipped}"
    )
    return lines, bool(known)


if __name__ == "__main__":
    sys.exit(main())
