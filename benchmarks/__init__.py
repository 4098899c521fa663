"""Benchmarks of bricard against other simulation tools."""
