# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def interpreter(version: str) -> str | None:
    """That Python, in the path or among pyenv's; pyenv also puts commands into the path that only say where it is."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))]
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        said = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, check=False)
        if said.stdout.strip() == version:
            return candidate
    return None
