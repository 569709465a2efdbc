"""Python packages for other interpreters with pip, files by their URL with requests: by pip's settings."""
