"""Recorded real runs that ship with the package, and the player that writes them as a live log."""
