"""The verbs, a module for those that belong together. What they need is imported when they run: `--help` is quick.

These and `cli` alone own standard output and exit statuses.
"""
