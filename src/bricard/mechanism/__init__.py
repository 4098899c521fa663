"""Mechanisms of bodies and joints as systems of equations, in any of three kinds of coordinates.

The subpackages, in the order in which to read them:

- `description`: what a user describes, as plain data. All problems are collected and raised together. `joint_types` is
  the table of the components that each type of joint constrains.
- `model`: the mechanics of bodies, batched over joints, springs and wheels, as one pytree (`compiled_model`). Every
  scalar that is constrained, sprung or driven comes with its wrenches, its gradient with respect to the twists of the
  bodies. The model knows placements and twists, no coordinates.
- `coordinates`: systems of equations (`mechanism_system`) from a model and a map from coordinates to placements:
  `relative` (with `tree`), and `absolute` and `natural` (with `body_coordinates`).

`joint_reactions`, `degrees_of_freedom` and `redundancy` answer questions about the finished system.

A body frame has its origin in the centre of mass and the axes of the world in the reference configuration.
"""

from bricard.mechanism.coordinates.mechanism_system import MechanismSystem as MechanismSystem
from bricard.mechanism.degrees_of_freedom import Mobility as Mobility
from bricard.mechanism.degrees_of_freedom import mobility as mobility
from bricard.mechanism.description.builder import Mechanism as Mechanism
from bricard.mechanism.description.solids import Shape as Shape
from bricard.mechanism.description.solids import box as box
from bricard.mechanism.description.solids import compound as compound
from bricard.mechanism.description.solids import cylinder as cylinder
from bricard.mechanism.description.solids import plate as plate
from bricard.mechanism.description.solids import point_mass as point_mass
from bricard.mechanism.description.solids import rigid as rigid
from bricard.mechanism.description.solids import rod as rod
from bricard.mechanism.description.solids import sphere as sphere
from bricard.mechanism.joint_reactions import Reaction as Reaction
from bricard.mechanism.joint_reactions import Reactions as Reactions
from bricard.mechanism.joint_reactions import reactions as reactions
