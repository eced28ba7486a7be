"""Plain reference implementations that compiled and optimized code must equal."""
