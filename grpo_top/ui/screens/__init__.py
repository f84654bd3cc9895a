"""Screens: the monitor at the bottom, and what one drills down into."""
