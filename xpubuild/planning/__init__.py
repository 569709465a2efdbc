"""Turns a request and facts into a plan. Pure: no I/O."""
