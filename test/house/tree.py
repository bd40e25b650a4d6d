"""The files of the source tree: what git would list, without needing git."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CXX = {".h", ".c", ".cpp", ".cc", ".hpp"}


def files(*suffixes, under=""):
    """Paths relative to ROOT, sorted; build directories and hidden ones are left out."""
    found = []
    for folder, dirs, names in os.walk(ROOT / under):
        top = pathlib.Path(folder) == ROOT
        dirs[:] = [
            d for d in dirs if d != "__pycache__" and not (top and (d.startswith("build") or d[0] == "."))
        ]
        for name in names:
            path = pathlib.Path(folder, name)
            if not suffixes or path.suffix in suffixes:
                found.append(path.relative_to(ROOT))
    return sorted(found)
