"""Integrations with the packages themselves; the code of the how-to pages with their servers."""
