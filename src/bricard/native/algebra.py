"""Products of matrices and triangular factors, with zeros left out: sparse where the matrix is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bricard.native.code import Code, Unsupported, known
from bricard.native.values import Values

Results = list[Any]


def _dot(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    code = values.code
    (over_left, over_right), (along_left, along_right) = params["dimension_numbers"]
    if kinds != ["f", "f"]:
        raise Unsupported("a product of integers")
    left, right = values.numbers(args[0]), values.numbers(args[1])
    sides = []
    for x, over, along in ((left, over_left, along_left), (right, over_right, along_right)):
        free = [a for a in range(x.ndim) if a not in over and a not in along]
        lengths = [math.prod(x.shape[a] for a in axes) for axes in (along, free, over)]
        sides.append(x.transpose(*along, *free, *over).reshape(lengths))
    left, right = sides
    result = np.empty((left.shape[0], left.shape[1], right.shape[1]), dtype=object)
    for b in range(left.shape[0]):
        rows, columns = [[_sparse(x) for x in side[b]] for side in (left, right)]
        _drop(code, left[b], right[b])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                total: Any = 0.0
                for k, y in column.items():
                    if k in row:
                        total = code.add(total, code.mul(row[k], y))
                result[b, i, j] = total
    return [result.reshape(out[0].shape)]


def _sparse(row: np.ndarray) -> dict[int, Any]:
    """The numbers of a row that are not known to be zero."""
    return {k: x for k, x in enumerate(row) if isinstance(x, str) or x != 0}


def _drop(code: Code, left: np.ndarray, right: np.ndarray) -> None:
    """Take note of all that is left out of a product: what is known to be zero meets what is not."""
    for x, y in ((left, right), (right, left)):
        for k in range(x.shape[1]):
            if any(known(z) and z == 0 for z in x[:, k]):
                for z in y[:, k]:
                    if isinstance(z, str):
                        code.drop(z)
                    elif not math.isfinite(z):
                        raise Unsupported("a product of zero and a number that is not finite")


def _cholesky(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    a, code = values.numbers(args[0]), values.code
    if a.ndim != 2:
        raise Unsupported("factors of several matrices at once")
    n = a.shape[0]
    factor = np.full((n, n), 0.0, dtype=object)
    good: Any = True
    for j in range(n):
        for i in range(j, n):
            total = a[i, j]
            for k in range(j):
                total = code.sub(total, code.mul(factor[i, k], factor[j, k]))
            if i == j:
                good = code.both(good, code.compare("gt", "f", total, 0.0))
            factor[i, j] = _root(code, total) if i == j else _quotient(code, total, factor[j, j])
    for i, j in zip(*np.tril_indices(n), strict=True):  # all or nothing, as LAPACK does
        if good is False or isinstance(factor[i, j], str):
            factor[i, j] = code.select(good, "f", factor[i, j], math.nan)
        else:  # It stays known: a program in which there is no factor must not go on with it.
            code.alarm(code.invert(good))
    return [factor]


def _quotient(code: Code, x: Any, root: Any) -> Any:
    """Over a root that is positive, or else nothing of the factor is used."""
    if known(x) and known(root):
        return x / root if root else math.nan
    if known(x) and x == 0:
        return x
    return code.divide(x, root)


def _root(code: Code, x: Any) -> Any:
    return math.sqrt(x) if known(x) and x >= 0 else code.call("sqrt", x)


def _triangular(values: Values, params: Any, args: Any, kinds: Any, out: Any) -> Results:
    a, b = values.numbers(args[0]), values.numbers(args[1])
    code, n = values.code, b.shape[0] if params["left_side"] else b.shape[-1]
    if a.ndim != 2 or b.ndim != 2 or params["conjugate_a"]:
        raise Unsupported("several triangular systems at once")
    if not params["left_side"]:
        a, b = a.T, b.T
    lower = params["lower"] == params["left_side"]  # a transposed matrix has its other half filled
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


ALGEBRA: dict[str, Callable[..., Any]] = {
    "dot_general": _dot,
    "cholesky": _cholesky,
    "triangular_solve": _triangular,
}
"""Name of the operation -> function of the values, its parameters, its arguments, their kinds and the abstract results,
which gives the results."""
