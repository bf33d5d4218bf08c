"""The rules of the source tree, each a function over one module's syntax tree.

A rule yields `(line, what)` for every place that breaks it. Rules read text and import nothing, so
they hold for code that is not reached by any test.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final

Rule = Callable[[str, ast.Module], Iterator[tuple[int, str]]]

# --- who may import whom ------------------------------------------------------------------------

LAYERS: Final = ("model", "core", "store", "endpoints", "pipeline", "node", "api")
"""From the ground up. A layer imports those before it."""

PACKAGE: Final = "(package)"
"""`lockgate` itself: its version, which may be asked for, and the way to the client."""

MAY_IMPORT: Final[dict[str, frozenset[str]]] = {
    PACKAGE: frozenset({"client", "lake"}),
    **{layer: frozenset(LAYERS[:height]) for height, layer in enumerate(LAYERS)},
    "node": frozenset({*LAYERS[: LAYERS.index("node")], PACKAGE}),
    "api": frozenset({*LAYERS[: LAYERS.index("api")], PACKAGE}),
    # Beside node: drives core through the same ports, against a world of its own.
    "sim": frozenset({"model", "core", "store"}),
    # Speaks to the api over HTTP, from any machine: it knows the documents and nothing behind them.
    "client": frozenset({"model"}),
    # A library for people's own Spark: it reads what lies in a lake and asks nobody.
    "lake": frozenset({"model", "endpoints"}),
    # A show of everything, for people at their first look.
    "demo": frozenset({*LAYERS, "client"}),
    # People's tools talk to the api only. They share the errors they show.
    "cli": frozenset({"model", "client", PACKAGE}),
    "web": frozenset({"model", "api", PACKAGE}),
}

ALSO: Final[dict[str, frozenset[str]]] = {
    "lockgate.cli.sim": frozenset({"sim"}),
    "lockgate.cli.demo": frozenset({"sim", "demo"}),
    # Runs a feed in its own process, with no service to ask.
    "lockgate.cli.feed_run": frozenset({"node", "pipeline"}),
    # Reads lake tables as people do: what they see is what is compared.
    "lockgate.pipeline.lake_diff_sides": frozenset({"lake"}),
    # Is the service.
    "lockgate.cli.server": frozenset({"api"}),
    # A metastore is prepared before any node runs that could be asked over the api.
    "lockgate.cli.metastore": frozenset({"store"}),
}
"""Single modules that may import more, and why is in their name."""


def downwards(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Imports point downwards only."""
    layer = _layer(module)
    if layer not in MAY_IMPORT:
        yield 1, f"the package {layer!r} has no place in the layers; give it one in MAY_IMPORT"
        return
    allowed = MAY_IMPORT[layer] | ALSO.get(module, frozenset()) | {layer}
    for line, target in _imports(module, tree):
        if target.split(".")[0] == "lockgate" and _layer(target) not in allowed:
            may = ", ".join(sorted(MAY_IMPORT[layer])) or "nothing of lockgate"
            yield line, f"{layer} may not import {target}; it may import {may}"


# --- what is pure stays pure --------------------------------------------------------------------

# fmt: off
PURE: Final = frozenset({
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "enum", "functools",
    "heapq", "itertools", "math", "operator", "typing",
})
"""Standard modules with no clock, no randomness, no threads and no I/O in them."""

PURE_FOR_MODEL: Final = PURE | frozenset({
    "decimal", "fractions", "hashlib", "hmac", "msgspec", "re", "string", "struct", "types",
    "urllib.parse",
})
"""The model also parses, formats and encodes what comes in and goes out."""
# fmt: on

IMPURE_BUILTINS: Final = {
    "__import__": "imports are written as imports, where this test sees them",
    "breakpoint": "core does not stop for anybody",
    "eval": "code is not data",
    "exec": "code is not data",
    "hash": "a str's hash differs in every process (PYTHONHASHSEED)",
    "id": "an object's address differs in every run",
    "input": "core does no I/O; it returns instructions",
    "open": "core does no I/O; it returns instructions",
    "print": "core does no I/O; it returns instructions",
}


def pure_imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """`core` and `model` import nothing that could make two equal runs differ."""
    allowed = {"core": PURE, "model": PURE_FOR_MODEL}.get(_layer(module))
    if allowed is None:
        return
    for line, target in _imports(module, tree):
        top = target.split(".")[0]
        if top != "lockgate" and not {top, target} & allowed:
            yield line, f"{_layer(module)} is pure and may not import {target}"


def pure_builtins(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """`core` uses no builtin that does I/O or differs from run to run, under any name."""
    if _layer(module) != "core":
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS:
            yield node.lineno, f"`{node.id}` in core: {IMPURE_BUILTINS[node.id]}"


# --- everywhere ---------------------------------------------------------------------------------

UNPICKLING: Final = frozenset({"_pickle", "cPickle", "cloudpickle", "dill", "pickle", "shelve"})


def no_pickle(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Nothing in Lockgate reads or writes pickles: reading one runs what its author wrote."""
    for line, target in _imports(module, tree):
        if target.split(".")[0] in UNPICKLING:
            yield line, f"{target}: bytes are decoded with msgspec, never unpickled"


def documented(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """A reader opens one module and is told what it is for."""
    if not (ast.get_docstring(tree) or "").strip():
        yield 1, "the module has no docstring: say what it is for, and why it is so"


LINES_ADVISED: Final = 400
LINES_MAX: Final = 500


def size(lines: int) -> str | None:
    """What there is to say about a module of this many lines: a word of advice, or a refusal."""
    if lines > LINES_MAX:
        return f"{lines} lines, more than {LINES_MAX}: split out the second thing in it"
    if lines > LINES_ADVISED:
        return f"{lines} lines, more than {LINES_ADVISED}: look for the second thing in it"
    return None


RULES: Final[tuple[Rule, ...]] = (downwards, pure_imports, pure_builtins, no_pickle, documented)


def check(rule: Rule, module: str, source: str) -> list[str]:
    """Every place where the module's source breaks the rule, as `module:line: what`."""
    return [f"{module}:{line}: {what}" for line, what in rule(module, ast.parse(source))]


# --- reading a module ---------------------------------------------------------------------------


def _layer(module: str) -> str:
    parts = module.removesuffix(".__init__").split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


def _imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every import at any depth, as the absolute name of the module it reads from.

    Imports under TYPE_CHECKING count: a layer does not know the names above it either.
    A package is named `….__init__`, which makes relative imports resolve alike everywhere.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parent = module.split(".")[: -node.level] if node.level else []
            source = ".".join([*parent, *filter(None, [node.module])])
            if source != "lockgate":
                yield node.lineno, source
                continue
            for alias in node.names:
                dunder = alias.name.startswith("__")
                yield node.lineno, source if dunder else f"{source}.{alias.name}"
