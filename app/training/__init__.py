"""Jobs that make models, and the lists of models and jobs."""
