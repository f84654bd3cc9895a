"""What each panel of the monitor says: pure functions from a View to facts that a widget draws."""
