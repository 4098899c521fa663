"""Compilation and execution of traced functions. Nothing here depends on mechanics.

- `compile`: `compiled(function)`, the entry point. It selects a back end for each call and reports which and why.
- `cache`: values cached per object, methods traced once per structure.
- `partition`: splits an object into its arrays and its static remainder, the key under which programs are cached.
- `hoist`: loop-invariant code motion on jaxprs, for XLA.
- `llvm`: the back end for small programs, from jaxprs to LLVM. It imports no other module of bricard.
- `lapack`: LAPACK calls that are safe inside loops and batches. `rounding`: running error analysis of a jaxpr.
- `interrupt`, `stoppable_loop`: Ctrl-C while a compiled program runs. `garbage`: pauses the garbage collector.
"""
