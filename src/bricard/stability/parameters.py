"""Find and set parameters by name: fields of a controller (`kp`, `kappa`, `period`) or of the system (`m`, `l`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bricard.errors import ModelError
from bricard.simulation.controller import Controller
from bricard.system import System

Path = tuple[Any, ...]
"""Attribute names and indices from the root of a pytree to a leaf."""


class Target(NamedTuple):
    """Location of a parameter in the controller or in the system."""

    name: str
    of_system: bool
    paths: tuple[Path, ...]


def find_parameters(system: System, loop: Controller, names: Sequence[str]) -> tuple[Target, ...]:
    """The location of each name: the outermost fields of that name, in the controller first.

    Raises `ModelError`, which lists all known names, if a name is unknown or ambiguous.
    """
    own, model = dict(_numbers(loop)), dict(_numbers(system))
    targets, problems = [], []
    for name in names:
        wanted = tuple(name.split("."))
        inside = [p for p in own if p[-len(wanted) :] == wanted]
        outermost = [p for p in inside if len(p) == min(len(x) for x in inside)]
        of_system = [p for p in model if p[-len(wanted) :] == wanted]
        if outermost:
            values = [np.asarray(own[p]) for p in outermost]
            if any(v.shape != values[0].shape or not np.array_equal(v, values[0]) for v in values):
                where = ", ".join(".".join(map(str, p)) for p in outermost)
                problems.append(f"{name!r} is in several places with different values: {where}. Write more of its path")
            elif values[0].ndim > 1:
                problems.append(f"{name!r} is a matrix; give the controller one number (or one for each output)")
            targets.append(Target(name, False, tuple(outermost)))
        elif of_system:
            shortest = [p for p in of_system if len(p) == min(len(x) for x in of_system)]
            targets.append(Target(name, True, tuple(shortest)))
        else:
            known = sorted({str(p[-1]) for p in own} | {str(p[-1]) for p in model})
            problems.append(f"no parameter called {name!r}; there are {', '.join(known)}")
    if problems:
        raise ModelError("parameters", problems)
    return tuple(targets)


def set_parameters(
    system: System, loop: Controller, targets: Sequence[Target], values: Sequence[Array]
) -> tuple[System, Controller]:
    """Copies of the system and the loop with new parameter values; a vector of gains gets equal entries.

    A changed system also replaces models of its type inside the controller.
    """
    for target, value in zip(targets, values, strict=True):
        if target.of_system:
            system = _set(system, target.paths, value)
        else:
            loop = _set(loop, target.paths, value)
    if any(t.of_system for t in targets):
        paths = tuple(p for p, x in _models(loop) if type(x) is type(system))
        for path in paths:
            loop = eqx.tree_at(lambda tree, p=path: _at(tree, p), loop, system)
    return system, loop


def _set(tree: Any, paths: tuple[Path, ...], value: Array) -> Any:
    for path in paths:
        old = _at(tree, path)
        new = jnp.broadcast_to(jnp.asarray(value, dtype=float), jnp.shape(old))
        tree = eqx.tree_at(lambda x, p=path: _at(x, p), tree, new)
    return tree


def _at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = getattr(tree, step) if isinstance(step, str) and not isinstance(tree, dict) else tree[step]
    return tree


def _children(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, eqx.Module):
        for field in dataclasses.fields(node):
            if not field.metadata.get("static", False):
                yield field.name, getattr(node, field.name)
    elif isinstance(node, (tuple, list)):
        yield from enumerate(node)
    elif isinstance(node, dict):
        yield from node.items()


def _numbers(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Named floating-point leaves with their paths, except those of models inside controllers."""
    for step, child in _children(node):
        if isinstance(child, (float, jax.Array, np.ndarray)) and np.issubdtype(np.asarray(child).dtype, np.floating):
            if isinstance(step, str):
                yield (*path, step), child
        elif not isinstance(child, System):
            yield from _numbers(child, (*path, step))


def _models(node: Any, path: Path = ()) -> Iterator[tuple[Path, System]]:
    for step, child in _children(node):
        if isinstance(child, System):
            yield (*path, step), child
        else:
            yield from _models(child, (*path, step))
