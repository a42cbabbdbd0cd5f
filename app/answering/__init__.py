"""What the service answers at once: decisions, sets, questions, and what they would have earned."""
