"""Proof, on the device, that a torch works."""
