"""Machine code for programs of few numbers, straight from LLVM.

XLA is made for large arrays: a mechanism of a few bodies it compiles for seconds, into code that spends its time on
moving small arrays about. Here each number is a variable of its own, zeros of the model are left out, and loops
stay loops. What is not supported (large or batched programs, callbacks, derivatives that are asked for) remains XLA's.
"""

from bricard.native.code import Unsupported as Unsupported
from bricard.native.program import Packed as Packed
from bricard.native.program import Program as Program
from bricard.native.program import pack as pack
