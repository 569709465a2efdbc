"""From a log to its first error, the likely causes and the next command, by signatures that are data."""
