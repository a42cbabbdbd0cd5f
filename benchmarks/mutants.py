"""60 small faults, one at a time in a copy of the code: do the tests that mirror a module find them?

    nice -n 15 .venv/bin/python benchmarks/mutants.py [--tree FOLDER] [--out mutants.jsonl] [--count 60] [--seconds 600]

The code is that in FOLDER, by default this one. The faults are drawn with a fixed seed, from all packages in turn.
For each only the tests of its module run (`tests/payoff/decisions/test_x.py` for
`payoff/decisions/x.py`, else the package's folder), until one fails; beforehand once on the code as it is, for at most
`--seconds`. Results are lines of JSON in
`--out`, at which a run that was stopped goes on. Prints the tables of `benchmarks/mutants.md`. Takes an hour.

The smallest work: `.venv/bin/python benchmarks/mutants.py --count 1 --seconds 60 --out /dev/null`
"""

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEED = 26
PACKAGES = {
    "decisions": ("payoff/decisions/*.py",),
    "retrieval": ("payoff/retrieval/*.py",),
    "acquisition": ("payoff/acquisition/*.py",),
    "registry": ("app/registry/*.py",),
    "jobs": ("app/jobs/*.py",),
    "access": ("app/access/*.py",),
    "gate": (
        "app/api/gate.py",
        "app/api/exchange.py",
        "app/api/memory.py",
    ),
}
GATE = (
    "test_one_behaviour.py",
    "test_keys.py",
    "test_refusals.py",
    "test_edge.py",
)  # all of tests/api take too long
COPIED = (
    "app",
    "payoff",
    "tests",
    "clients",
    "tools",
    "docs",
    "benchmarks",
    "deploy",
    "pyproject.toml",
    "README.md",
    "Makefile",
)
_PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    *(
        (ast.Lt, ast.GtE),
        (ast.Gt, ast.LtE),
        (ast.Eq, ast.NotEq),
        (ast.Is, ast.IsNot),
        (ast.In, ast.NotIn),
    ),
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)),
)
TURNED: dict[type[ast.AST], Any] = dict(_PAIRS) | {b: a for a, b in _PAIRS}
MOVED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def faults(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """What may be wrong about a node: the kind of fault, what is replaced, and what takes its place."""
    changed: Any = copy.copy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind, table in (("comparison flipped", TURNED), ("boundary moved", MOVED)):
            if type(node.ops[0]) in table:
                yield (
                    kind,
                    node,
                    ast.Compare(
                        node.left, [table[type(node.ops[0])]()], node.comparators
                    ),
                )
    elif (
        isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign)
        and type(node.op) in TURNED
    ):
        changed.op = TURNED[type(node.op)]()
        yield (
            "and, or exchanged"
            if isinstance(node, ast.BoolOp)
            else "operator exchanged",
            node,
            changed,
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        changed.value = (
            not node.value if isinstance(node.value, bool) else node.value + 1
        )
        yield "constant changed", node, changed
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "None returned", node, ast.Return(ast.Constant(None))
    elif (
        isinstance(node, ast.If | ast.While | ast.IfExp)
        and ast.unparse(node.test) != "TYPE_CHECKING"
    ):
        yield "condition negated", node.test, ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.Raise | ast.AugAssign | ast.Continue) or is_call(node):
        yield "statement deleted", node, ast.Pass()


def is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All below that run: no annotations, no defaults of decorators, no parts of formatted texts."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(
            node, ast.JoinedStr
        ):
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST):
                yield from nodes(inner)


def mutants(package: str) -> Iterator[dict[str, Any]]:
    for path in sorted(
        path for pattern in PACKAGES[package] for path in Path().glob(pattern)
    ):
        source = path.read_bytes()
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for node in nodes(ast.parse(source)):
            for kind, old, new in faults(node):
                begin, end = (
                    starts[y - 1] + x
                    for y, x in (
                        (old.lineno, old.col_offset),
                        (old.end_lineno, old.end_col_offset),
                    )
                )
                put = ast.unparse(ast.fix_missing_locations(new))
                put = f"({put})" if isinstance(new, ast.expr) else put
                where = {
                    "module": str(path),
                    "line": old.lineno,
                    "begin": begin,
                    "end": end,
                }
                yield where | {
                    "package": package,
                    "kind": kind,
                    "old": source[begin:end].decode(),
                    "new": put,
                }


def drawn(count: int) -> list[dict[str, Any]]:
    """As many of each package, and of these as many of each kind; the packages in turn."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number, package in enumerate(PACKAGES):
        r = random.Random(f"{SEED} {package}")
        kinds: dict[str, list[dict[str, Any]]] = {}
        for mutant in mutants(package):
            kinds.setdefault(mutant["kind"], []).append(mutant)
        share = count // len(PACKAGES) + (number < count % len(PACKAGES))
        order = r.sample(sorted(kinds), len(kinds)) * (share // len(kinds) + 1)
        found += [
            (turn, r.choice(kinds[kind])) for turn, kind in enumerate(order[:share])
        ]
    return [mutant for _, mutant in sorted(found, key=lambda one: one[0])]


def tests_of(module: str) -> list[str]:
    path = Path(module)
    of_library = path.parts[0] == "payoff"
    folder = (
        Path("tests", *path.parts[:-1]) if of_library else Path("tests", path.parts[1])
    )
    own = folder / f"test_{path.stem.removeprefix('_')}.py"
    if own.exists():
        return [str(own)]
    return (
        [str(folder / name) for name in GATE] if folder.name == "api" else [str(folder)]
    )


def run(tree: Path, tests: list[str], seconds: float) -> tuple[str, str]:
    """`passed`, `failed`, `timeout` or `error`, and the first test that failed."""
    environment = os.environ | {
        "PYTHONPATH": f"{tree}:{tree}/clients/python",
        "OMP_NUM_THREADS": "1",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "--tb=no",
        "-rfE",
        *tests,
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(
        command, cwd=tree, env=environment, start_new_session=True, **pipes
    )
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    finally:
        with contextlib.suppress(
            ProcessLookupError
        ):  # what tests have left running, or all of them
            os.killpg(process.pid, signal.SIGKILL)
    failed = [
        line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    return {0: "passed", 1: "failed", 2: "failed"}.get(process.returncode, "error"), (
        failed or [text[-200:]]
    )[0][:200]


def judged(
    tree: Path, mutant: dict[str, Any], seconds: float, took: dict[str, float]
) -> dict[str, Any]:
    """The fault with its verdict; `took` knows how long which tests take without it, 0: they do not pass in time."""
    tests, began = tests_of(mutant["module"]), time.monotonic()
    if (name := " ".join(tests)) not in took:
        passed = run(tree, tests, seconds)[0] == "passed"
        took[name] = time.monotonic() - began if passed else 0
    if not took[name]:
        return mutant | {"verdict": "not judged", "by": ""}
    path = tree / mutant["module"]
    stat, source = path.stat(), path.read_bytes()
    path.write_bytes(
        source[: mutant["begin"]] + mutant["new"].encode() + source[mutant["end"] :]
    )
    try:
        result, by = run(tree, tests, 60 + 2 * took[name])
    finally:
        path.write_bytes(source)
        os.utime(
            path, ns=(stat.st_atime_ns, stat.st_mtime_ns)
        )  # compiled loops go by the time of their source
    verdict = {
        "passed": "survived",
        "failed": "killed",
        "timeout": "hung",
        "error": "no tests",
    }[result]
    return mutant | {"verdict": verdict, "by": by if result == "failed" else ""}


def report(results: list[dict[str, Any]]) -> None:
    counts = Counter((one["package"], one["verdict"]) for one in results)
    verdicts = sorted({verdict for _, verdict in counts})
    print(
        f"| package | mutants | {' | '.join(verdicts)} |\n|---|{'---|' * (len(verdicts) + 1)}"
    )
    for package in (*PACKAGES, "all"):
        each = [
            sum(
                n
                for (of, its), n in counts.items()
                if package in (of, "all") and its == v
            )
            for v in verdicts
        ]
        print(f"| {package} | {sum(each)} | {' | '.join(map(str, each))} |")
    print("\n| not killed | fault | was | is |\n|---|---|---|---|")
    for one in results:
        if one["verdict"] != "killed":
            was, now = (
                " ".join(one[key].split())[:70].replace("|", "\\|")
                for key in ("old", "new")
            )
            print(
                f"| `{one['module']}:{one['line']}` {one['verdict']} | {one['kind']} | `{was}` | `{now}` |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=600.0)
    chosen = parser.parse_args()
    chosen.out = chosen.out.resolve()
    os.chdir(chosen.tree)
    results = (
        [json.loads(line) for line in chosen.out.read_text().splitlines()]
        if chosen.out.exists()
        else []
    )
    done = {(one["module"], one["begin"], one["new"]) for one in results}
    took: dict[str, float] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left running
    with tempfile.TemporaryDirectory() as folder, chosen.out.open("a") as out:
        for name in COPIED:  # with the times of files, so that compiled loops are found
            kept = shutil.copytree if Path(name).is_dir() else shutil.copy2
            kept(name, Path(folder) / name)
        for mutant in drawn(chosen.count):
            if (mutant["module"], mutant["begin"], mutant["new"]) not in done:
                results.append(judged(Path(folder), mutant, chosen.seconds, took))
                out.write(json.dumps(results[-1]) + "\n")
                out.flush()
    report(results)


if __name__ == "__main__":
    main()
