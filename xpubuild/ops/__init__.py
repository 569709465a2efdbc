"""The embedded smoke extension."""
