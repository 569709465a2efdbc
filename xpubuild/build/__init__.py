"""From a recipe to a plan, and the audit of what it made."""
