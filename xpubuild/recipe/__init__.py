"""Recipes: schema, loading and checks."""
