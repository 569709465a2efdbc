"""Wheels that were built before, by what decided them: folders, servers, the rule whom to believe."""
