"""The description of a mechanism: plain data, checked as a whole before anything is compiled."""
