"""The same problems by other tools, each with its best settings as far as we know them."""
