"""What the adapters of task queues have: tokens of Celery's workers and Temporal's activities."""
