"""What the adapters of task queues share, and the tokens of their workers."""
