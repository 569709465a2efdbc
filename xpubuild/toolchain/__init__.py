"""Python environments, hashed requirements, compilers."""
