"""Models from files: MJCF and, through the same parser, URDF."""

from bricard.io.read import load as load
