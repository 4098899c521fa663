"""The LLVM back end: compiles jaxprs with few scalar operations directly to machine code.

XLA is made for large arrays: it takes seconds to compile a mechanism of a few bodies, and the result spends its time
moving small arrays. Here each array element is a scalar variable (arrays are *scalarised*), products with zeros of the
model are folded, and loops stay loops. Programs that are not supported (large or batched programs, callbacks,
operations without a rule) raise `Unsupported` and are compiled by XLA.

- `program`: `Program`, a compiled function of packed arrays. `size`: refuses large programs early.
- `translate`: from the equations of a jaxpr to instructions, by the rules in `scalar_rules`, `array_rules`,
  `index_rules` and `algebra_rules`. `values`: how arrays are represented.
- `arithmetic`, `integers`, `instructions`: emit LLVM instructions on scalars, with constant folding.
- `guards`: run-time checks that folding products with zero has hidden no NaN.
- `machine`: compiles the text to machine code. `stop`: the flag that ends loops early.
"""

from bricard.execution.llvm.arithmetic import Unsupported as Unsupported
from bricard.execution.llvm.program import Packed as Packed
from bricard.execution.llvm.program import Program as Program
from bricard.execution.llvm.program import pack as pack
