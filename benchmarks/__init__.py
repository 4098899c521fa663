"""Speed, measured against the default and against other tools."""
