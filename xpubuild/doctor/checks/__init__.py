"""The checks, one class each, by what they look at; ``doctor.registry`` finds them all here."""
