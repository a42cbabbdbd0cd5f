"""The report on outcomes: cases in slices, sums of these, and sections that judge the sums."""
