"""Which action pays most: benefit matrices, thresholds, hierarchies, calibration. Pure."""
