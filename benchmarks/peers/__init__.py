"""The problems in other tools, each with the best settings that we know."""
