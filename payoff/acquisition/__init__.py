"""Which feature is worth buying next. Pure."""
