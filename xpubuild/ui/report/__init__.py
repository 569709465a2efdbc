"""The page of ``xpubuild report``: HTML that needs no other file, no script and no network."""
