"""Where bytes come from, and nothing about what they mean. Nothing here writes to a run or locks it."""
