"""Which joints become coordinates, and which are cut: a spanning tree of the bodies.

Every loop is cut once, at the joint that holds the fewest components, since each of them becomes a constraint.
Joints whose turn something acts on are kept if possible. Among equals those near the ground are kept, which makes the
tree shallow. A joint with several freedoms is a chain of elementary motions, each a `link` of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bricard.errors import ModelError
from bricard.mechanism.description.joint_types import KINDS, Motion
from bricard.mechanism.model.compiled_model import Model


class Link(NamedTuple):
    """One elementary motion of a tree joint; a fixed joint is a link that does not move."""

    parent: int
    """Link that it hangs on; the number of links stands for the ground."""
    joint: int
    motion: Motion | None
    forward: bool
    """Whether the tree passes the joint from its parent to its child."""
    first: bool
    last: bool
    """Whether it is the first and the last link of its joint."""


class Tree(NamedTuple):
    """Links from the ground outwards, the link of each body, and the joints that were cut."""

    links: tuple[Link, ...]
    body_link: tuple[int, ...]
    cut: tuple[int, ...]

    @property
    def ancestors(self) -> np.ndarray:
        """(L, L): whether the second link moves the first, itself included."""
        n = len(self.links)
        moves = np.eye(n, dtype=bool)
        for i, link in enumerate(self.links):
            if link.parent < n:
                moves[i] |= moves[link.parent]
        return moves


def spanning_tree(model: Model, cut: Sequence[str] = ()) -> Tree:
    """The tree of a mechanism; joints named in `cut` are cut whatever their kind."""
    frames, ground = model.frames, model.n
    _check_cut(model, cut)
    usable = [j for j, kind in enumerate(frames.kinds) if KINDS[kind].is_joint and frames.names[j] not in cut]
    distance = _distances(model, usable)

    def preference(j: int) -> tuple:
        rows = len(KINDS[frames.kinds[j]].rows(model.planar))
        near = min(distance[frames.parent[j]], distance[frames.child[j]])
        return (j in model.tracked, rows, -near, -j)

    # Kruskal: the most wanted joint that does not close a loop, until all bodies hang together.
    group = list(range(ground + 1))
    chosen: list[int] = []
    for j in sorted(usable, key=preference, reverse=True):
        a, b = group[frames.parent[j]], group[frames.child[j]]
        if a != b:
            group = [a if g == b else g for g in group]
            chosen.append(j)
    loose = [model.names[i] for i in range(ground) if group[i] != group[ground]]
    if loose:
        raise ModelError("cut", [f"{', '.join(loose)} would hang on nothing: keep one of its joints"])
    links, body_link = _links(model, chosen)
    kept = set(chosen)
    return Tree(tuple(links), tuple(body_link), tuple(j for j in range(len(frames)) if j not in kept))


def _check_cut(model: Model, cut: Sequence[str]) -> None:
    unknown = [n for n in cut if n not in model.frames.names]
    if unknown:
        raise ModelError("cut", [f"no joint called {n!r}" for n in unknown])


def _distances(model: Model, usable: Sequence[int]) -> list[float]:
    """Of each body, over how many joints it hangs on the ground."""
    frames, ground = model.frames, model.n
    distance = [np.inf] * ground + [0.0]
    frontier, steps = {ground}, 0.0
    while frontier:
        steps += 1.0
        ends = [(frames.parent[j], frames.child[j]) for j in usable]
        near = {b for a, b in ends if a in frontier} | {a for a, b in ends if b in frontier}
        frontier = {i for i in near if distance[i] == np.inf}
        for i in frontier:
            distance[i] = steps
    return distance


def _links(model: Model, chosen: Sequence[int]) -> tuple[list[Link], list[int]]:
    """The links of the chosen joints from the ground outwards."""
    frames, ground = model.frames, model.n
    total = sum(max(1, len(KINDS[frames.kinds[j]].elements(model.planar))) for j in chosen)
    link_of = {ground: total}
    links: list[Link] = []
    waiting = sorted(chosen)
    while waiting:
        j = next(j for j in waiting if frames.parent[j] in link_of or frames.child[j] in link_of)
        waiting.remove(j)
        forward = frames.parent[j] in link_of
        inner, outer = (frames.parent[j], frames.child[j])[:: 1 if forward else -1]
        motions = KINDS[frames.kinds[j]].elements(model.planar)[:: 1 if forward else -1] or (None,)
        parent = link_of[inner]
        for i, motion in enumerate(motions):
            links.append(Link(parent, j, motion, forward, i == 0, i == len(motions) - 1))
            parent = len(links) - 1
        link_of[outer] = parent
    return links, [link_of[i] for i in range(ground)]
