"""Models that were trained elsewhere, behind the interface of a learner."""
