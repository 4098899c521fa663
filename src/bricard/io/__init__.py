"""Readers of model files: MJCF (`mjcf`), URDF (`urdf`), and JSON files that add closed loops (`loops`)."""

from bricard.io.read import load as load
