"""What checks ask other programs for: libraries that may crash or hang are loaded in a child."""
