"""Media types of requests and answers."""

JSON = "application/json"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
GZIP = "application/gzip"
BINARY = "application/octet-stream"
FORM = "multipart/form-data"
SVG = "image/svg+xml"
TABULAR = (ARROW, CSV, PARQUET)
