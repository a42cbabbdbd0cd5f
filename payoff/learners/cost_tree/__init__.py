"""The cost-sensitive tree of classifiers."""
