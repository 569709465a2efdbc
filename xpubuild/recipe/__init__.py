"""Recipes: schema, loading, and what they demand."""
