"""Container images of a recipe: rendered as a Containerfile or an Apptainer definition, and built."""
