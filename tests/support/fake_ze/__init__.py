"""A Level Zero driver of our own, for tests of what runs behind the real loader."""
