"""The checks, one class each, grouped by subject; ``doctor.registry`` finds them here."""
