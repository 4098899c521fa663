"""Rules for matrix products, Cholesky factors and triangular solves, which exploit constant zeros of the matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bricard.execution.llvm.arithmetic import Code, Unsupported, is_constant
from bricard.execution.llvm.values import Values

Results = list[Any]


def _dot(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    code = values.code
    (contracted_left, contracted_right), (batch_left, batch_right) = params["dimension_numbers"]
    if types != ["f", "f"]:
        raise Unsupported("a product of integers")
    left, right = values.scalars(args[0]), values.scalars(args[1])
    sides = []
    for x, contracted, batch in ((left, contracted_left, batch_left), (right, contracted_right, batch_right)):
        free = [a for a in range(x.ndim) if a not in contracted and a not in batch]
        lengths = [math.prod(x.shape[a] for a in axes) for axes in (batch, free, contracted)]
        sides.append(x.transpose(*batch, *free, *contracted).reshape(lengths))
    left, right = sides
    result = np.empty((left.shape[0], left.shape[1], right.shape[1]), dtype=object)
    for b in range(left.shape[0]):
        rows, columns = [[_nonzero_entries(x) for x in side[b]] for side in (left, right)]
        _record_folded_factors(code, left[b], right[b])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                total: Any = 0.0
                for k, y in column.items():
                    if k in row:
                        total = code.add(total, code.mul(row[k], y))
                result[b, i, j] = total
    return [result.reshape(out[0].shape)]


def _nonzero_entries(row: np.ndarray) -> dict[int, Any]:
    """Index -> entry of a row, without constant zeros."""
    return {k: x for k, x in enumerate(row) if isinstance(x, str) or x != 0}


def _record_folded_factors(code: Code, left: np.ndarray, right: np.ndarray) -> None:
    """Report the factors that meet a constant zero in a matrix product to the guards."""
    for x, y in ((left, right), (right, left)):
        for k in range(x.shape[1]):
            if any(is_constant(z) and z == 0 for z in x[:, k]):
                for z in y[:, k]:
                    if isinstance(z, str):
                        code.fold_to_zero(z)
                    elif not math.isfinite(z):
                        raise Unsupported("a product of zero and a number that is not finite")


def _cholesky(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    a, code = values.scalars(args[0]), values.code
    if a.ndim != 2:
        raise Unsupported("a batch of Cholesky factorisations")
    n = a.shape[0]
    factor = np.full((n, n), 0.0, dtype=object)
    positive_definite: Any = True
    for j in range(n):
        for i in range(j, n):
            total = a[i, j]
            for k in range(j):
                total = code.sub(total, code.mul(factor[i, k], factor[j, k]))
            if i == j:
                positive_definite = code.bit_and(positive_definite, code.compare("gt", "f", total, 0.0))
            factor[i, j] = _sqrt(code, total) if i == j else _divide_by_pivot(code, total, factor[j, j])
    for i, j in zip(*np.tril_indices(n), strict=True):  # like LAPACK, return NaN everywhere if the factorisation fails
        if positive_definite is False or isinstance(factor[i, j], str):
            factor[i, j] = code.select(positive_definite, "f", factor[i, j], math.nan)
        else:  # entries that stay constant cannot become NaN, so failure raises an alarm
            code.alarm(code.bit_not(positive_definite))
    return [factor]


def _divide_by_pivot(code: Code, x: Any, root: Any) -> Any:
    """`x` divided by the diagonal entry `root`, which is positive whenever the factor is used."""
    if is_constant(x) and is_constant(root):
        return x / root if root else math.nan
    if is_constant(x) and x == 0:
        return x
    return code.divide(x, root)


def _sqrt(code: Code, x: Any) -> Any:
    return math.sqrt(x) if is_constant(x) and x >= 0 else code.call("sqrt", x)


def _triangular(values: Values, params: Any, args: Any, types: Any, out: Any) -> Results:
    a, b = values.scalars(args[0]), values.scalars(args[1])
    code, n = values.code, b.shape[0] if params["left_side"] else b.shape[-1]
    if a.ndim != 2 or b.ndim != 2 or params["conjugate_a"]:
        raise Unsupported("a batch of triangular systems")
    if not params["left_side"]:
        a, b = a.T, b.T
    lower = params["lower"] == params["left_side"]  # transposing swaps the triangles
    if params["transpose_a"]:
        a, lower = a.T, not lower
    x = np.empty(b.shape, dtype=object)
    for column in range(b.shape[1]):
        for i in range(n) if lower else range(n - 1, -1, -1):
            total = b[i, column]
            for k in range(i) if lower else range(i + 1, n):
                total = code.sub(total, code.mul(a[i, k], x[k, column]))
            x[i, column] = total if params["unit_diagonal"] else code.div(total, a[i, i])
    return [x if params["left_side"] else x.T]


ALGEBRA_RULES: dict[str, Callable[..., Any]] = {
    "dot_general": _dot,
    "cholesky": _cholesky,
    "triangular_solve": _triangular,
}
"""Primitive -> rule: function of the `Values`, the parameters, the arguments, their scalar types and the abstract
results, which returns the results."""
