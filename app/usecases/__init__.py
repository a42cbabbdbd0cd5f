"""What the service can do: plain functions, the only code that touches both maths and stores."""
