"""What makes models: jobs, and the models and jobs that there are."""
