"""Systems of equations from a model: relative, absolute and natural coordinates."""
