"""Bodies and joints in, a `System` out, in any of three kinds of coordinates.

How it is made, in the order in which to read it:

- `shapes`, `parts`, `description`, `connections`, `builder`, `check`: the description, plain Python. Wrong input is
  collected and told at once.
- `kinds`: one table says which components each kind of joint holds.
- `frames`, `measures`, `rolling`, `forces`: the mechanics of bodies, batched over all joints, springs, wheels. Every
  scalar that is constrained, sprung or driven comes with its wrenches: its gradient in body velocities.
- `model`: all that as one pytree. It knows bodies (`Placement`, `twists`), and nothing about coordinates.
- `base`: a `System` from a model and a map from coordinates to placements; `relative` (with `tree`), `absolute` and
  `natural` (both with `bodies`) are such maps.

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
