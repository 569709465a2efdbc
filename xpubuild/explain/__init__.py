"""From a log to its first error, the likely causes and the next command: signatures as data, and a matcher."""
