"""SymPy in and out: a `System` from SymPy expressions, and its constraint forces back as formulas of the state.

Needs the extra `symbolic`. Signs and names are those of `bricard.system`: `M v̇ + h = f + H u + Aᵀλ`, where `Aᵀλ` is
the force that the constraints exert **on** the system.
"""

try:
    import sympy as _sympy  # noqa: F401
except ImportError as error:
    raise ImportError("bricard.symbolic needs SymPy: pip install 'bricard[symbolic]'") from error

from bricard.symbolic.explicit import Formulas as Formulas
from bricard.symbolic.explicit import explicit as explicit
from bricard.symbolic.system import System as System
