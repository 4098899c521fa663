"""The routes under test."""

import bricard as br

RANK_SAFE = {
    "proximal": br.Proximal(),
    "gauss": br.Gauss(),
    "projection-skew": br.Projection("skew"),
    "projection-symmetric": br.Projection("symmetric"),
    "projection-parametrized": br.Projection("parametrized"),
    "mass-projection": br.MassProjection(),
    "null-space": br.NullSpace(),
    "partitioning": br.Partitioning(),
    "quasi-velocity": br.QuasiVelocity(),
    "augmented-lagrangian": br.AugmentedLagrangian(),
}
