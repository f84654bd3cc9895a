"""What bytes mean: one module a framework, each from bytes to records."""
