"""A run as a CSV table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from bricard.files import named_as, replacing
from bricard.simulation.trajectory import Trajectory


def write_table(trajectory: Trajectory, path: str | Path) -> Path:
    """Write a CSV file with one row per saved state, and return its path.

    Columns: time, coordinates, velocities, inputs, multipliers, energies, and constraint errors (SI units).
    """
    path, system = named_as(path, (".csv",)), trajectory.system
    groups = [(["t"], trajectory.t[:, None]), (list(system.coordinates), trajectory.q)]
    groups.append(([f"velocity {n}" if n in system.coordinates else n for n in system.velocity_names], trajectory.v))
    if len(trajectory):
        error, energy = trajectory.constraint_error, trajectory.energy
        groups += [
            ([f"input {n}" for n in system.input_names], trajectory.u),
            ([f"multiplier {n}" for n in system.row_names], trajectory.multipliers),
            (["kinetic energy"], energy.kinetic[:, None]),
            (["potential energy"], energy.potential[:, None]),
            (["energy balance"], energy.balance[:, None]),
            (["position error"], error.position[:, None]),
            (["velocity error"], error.velocity[:, None]),
        ]
    header = [name for names, _ in groups for name in names]
    rows = np.concatenate([np.asarray(values) for _, values in groups], axis=1)
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows.tolist())
    return path
