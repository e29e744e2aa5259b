"""Tokens of ASGI servers and their requests."""
