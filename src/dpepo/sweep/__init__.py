"""Sweeps: variants of one recipe over several seeds, run to the end and put into one table."""
