"""SymPy interface: define a `System` by SymPy expressions, and derive its constraint forces as formulas.

Needs the extra `symbolic`. Signs and names are those of `bricard.system`: `M v̇ + h = f + H u + Aᵀλ`, where `Aᵀλ` is
the generalised force that the constraints exert **on** the system.
"""

try:
    import sympy as _sympy  # noqa: F401
except ImportError as error:
    raise ImportError("bricard.symbolic needs SymPy: pip install 'bricard[symbolic]'") from error

from bricard.symbolic.formulas import Formulas as Formulas
from bricard.symbolic.formulas import explicit as explicit
from bricard.symbolic.sympy_system import System as System
