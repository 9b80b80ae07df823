"""Logs larger than memory: prepared once into a folder of plain arrays, which every command then reads in place."""
