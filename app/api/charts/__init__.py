"""Charts of answers as SVG, made without any library: small enough to send, and readable in light and dark viewers."""
