"""One module per generated page of docs/reference; ``page()`` returns its text."""
