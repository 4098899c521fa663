"""Every kind of joint and frame constraint in one table: which components it holds, which it leaves free.

Each joint has a frame on its parent `A` and one on its child `B`, whose third axis `z` is the joint's axis. With
`d = Aᵀ(p_B − p_A)` and `C = AᵀB` the possible constraint rows of a pair of frames are, in this order,

    0 force x      d_x                       3 moment x   −C_yz
    1 force y      d_y                       4 moment y    C_xz
    2 force z      d_z                       5 moment z    sin(turn − thread · d_z)
    6 moment       −C_xy: parent's x stays perpendicular to the child's y
    7 tension      (|d|² − L²)/2L: distance

and each is named by what its multiplier is: the force or moment of the joint on the child, in the parent's frame.
"""

from __future__ import annotations

from typing import NamedTuple

ROWS = ("force x", "force y", "force z", "moment x", "moment y", "moment z", "moment", "push")
"""Names of the rows, by the reaction that is their multiplier."""


class Motion(NamedTuple):
    """One elementary motion of a joint: a screw along an axis of the frame, or a ball joint."""

    name: str
    axis: int | None
    """0, 1, 2 for x, y, z of the joint's frame; None for a ball joint."""
    turn: float = 0.0
    slide: float = 0.0
    """Radians and metres per unit of the coordinate."""


class Kind(NamedTuple):
    """A kind of joint: its rows in space and in the plane (None: not in the plane), its motions in order."""

    space: tuple[int, ...]
    plane: tuple[int, ...] | None
    motions: tuple[Motion, ...] = ()
    plane_motions: tuple[Motion, ...] | None = None
    coordinate: str | None = None
    """What springs, motors, gears and drivers act on: its "turn" or "slide" about the axis."""
    is_joint: bool = True
    """Whether the spanning tree may use it."""

    def rows(self, planar: bool) -> tuple[int, ...]:
        """Rows in space or in the plane."""
        return (self.plane or ()) if planar else self.space

    def elements(self, planar: bool) -> tuple[Motion, ...]:
        """Elementary motions in space or in the plane."""
        return self.motions if not planar or self.plane_motions is None else self.plane_motions


_TURN = Motion("", 2, turn=1.0)
_SLIDE = Motion("", 2, slide=1.0)
_BALL = Motion("", None)
_XYZ = tuple(Motion(n, i, slide=1.0) for i, n in enumerate("xyz"))
_ANGLE = Motion("angle", 2, turn=1.0)

KINDS: dict[str, Kind] = {
    "revolute": Kind((0, 1, 2, 3, 4), (0, 1), (_TURN,), coordinate="turn"),
    "prismatic": Kind((0, 1, 3, 4, 5), (0, 4), (_SLIDE,), coordinate="slide"),
    "cylindrical": Kind(
        (0, 1, 3, 4), None, (Motion("slide", 2, slide=1.0), Motion("turn", 2, turn=1.0)), coordinate="slide"
    ),
    "universal": Kind((0, 1, 2, 6), None, (Motion("first", 0, turn=1.0), Motion("second", 1, turn=1.0))),
    "spherical": Kind((0, 1, 2), (0, 1), (_BALL,), (_TURN,)),
    "planar": Kind((2, 3, 4), (), (*_XYZ[:2], _ANGLE)),
    "helical": Kind((0, 1, 3, 4, 5), None, (_TURN,), coordinate="turn"),
    "fixed": Kind((0, 1, 2, 3, 4, 5), (0, 1, 5)),
    "free": Kind((), (), (*_XYZ, _BALL), (*_XYZ[:2], _ANGLE)),
    "coincident": Kind((0, 1, 2), (0, 1), is_joint=False),
    "distance": Kind((7,), (7,), is_joint=False),
    "point_on_line": Kind((0, 1), (0,), is_joint=False),
    "point_on_plane": Kind((2,), (2,), is_joint=False),
    "parallel": Kind((3, 4), (4,), is_joint=False),
}
