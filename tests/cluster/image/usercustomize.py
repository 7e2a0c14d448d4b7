# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Keeps the bytecode of modules that are imported from a zip file, which Python itself does not.

Every module of Ansible comes as such a file with all that it imports. Compiling that takes an emulated node longer than
running it. Only root's plain `python3` reads this; the agents start with -E and -s.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport

FOLDER = "/var/cache/zip-bytecode"
compile_source = zipimport._compile_source


def kept(pathname, source):
    """What the source compiles to. The file's name in it is that of the first zip file that had this source."""
    name = f"{os.path.basename(pathname)}-{len(source)}-{_imp.source_hash(0, source).hex()}"
    path = f"{FOLDER}/{name}.{sys.implementation.cache_tag}"
    try:
        with open(path, "rb") as file:
            return marshal.load(file)
    except (OSError, EOFError, ValueError, TypeError):
        code = compile_source(pathname, source)
        keep(path, code)
        return code


def keep(path, code):
    try:
        os.makedirs(FOLDER, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "wb") as file:
            marshal.dump(code, file)
        os.replace(file.name, path)
    except OSError:
        pass  # a full disk, which some tests make


zipimport._compile_source = kept
