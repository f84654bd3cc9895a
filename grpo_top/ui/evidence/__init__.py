"""Drill-down as pure functions: from a View to the rows of a finding's page and of an opened panel."""
