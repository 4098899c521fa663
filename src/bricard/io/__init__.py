"""Models from files: MJCF (`mjcf`) and URDF (`urdf`), with loops from a file of their own (`loops`)."""

from bricard.io.read import load as load
