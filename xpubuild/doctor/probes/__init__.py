"""Information from other programs: libraries that may crash or hang are loaded in a subprocess."""
