"""SQL: the engine and its transactions, pages of lists, changes by other processes, the schema's
steps.
"""
