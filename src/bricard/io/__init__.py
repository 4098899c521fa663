"""Readers of model files: MJCF (`mjcf`), URDF (`urdf`), and JSON files that add closed loops (`loops`)."""

from bricard.io.loading import load as load
