"""What the adapters of HTTP clients share: which requests are sent again, and how."""
