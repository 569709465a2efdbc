"""The closed lock: one document that names every input of a build."""
