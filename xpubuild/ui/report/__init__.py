"""The page of ``xpubuild status --html``: HTML that needs no other file, no script and no network."""
