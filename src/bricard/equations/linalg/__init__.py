"""Factorisations that the routes share: dense, banded, and sparse by the structure of the system."""
