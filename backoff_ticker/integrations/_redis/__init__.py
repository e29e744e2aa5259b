"""What processes share over Redis: tokens, circuits, budgets, and the connections for it."""
