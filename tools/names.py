"""Refuses names that do not say what they hold: `python3 tools/names.py FOLDER…`, exit status 1 where there is one.

A parameter, a local and a function are named by a noun of the domain or a verb of the field, never by a participle, a
pronoun or a quantity alone. Compiled loops have the symbols of their papers.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

REFUSED = re.compile(
    r"_*(found|own|told|tells?|says?|said|hear|heard|asked|sent|each|one|some|others?|whole|what|who|why|same|such|there"
    r"|meant|usual|wanted|given|taken|rest|most|fewest|judged|so|thus)_*"
)
COMPILED = {"kernel", "quick", "vector"}


def refused_names(path: Path) -> Iterator[tuple[int, str]]:
    """The refused names of a module's functions, parameters and locals, each with its line."""
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if COMPILED & {ast.unparse(decorator) for decorator in function.decorator_list}:
            continue
        names = [(function.lineno, function.name)]
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                names.append((node.lineno, node.arg))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.append((node.lineno, node.id))
        yield from ((line, name) for line, name in names if REFUSED.fullmatch(name))


def main(folders: list[str]) -> int:
    """Print each refused name with its place."""
    modules = [
        path for folder in folders for path in sorted(Path(folder).rglob("*.py"))
    ]
    lines = [
        f"{path}:{line}: {name!r} does not say what it holds\n"
        for path in modules
        for line, name in sorted(set(refused_names(path)))
    ]
    sys.stdout.writelines(lines)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
