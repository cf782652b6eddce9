"""What is measured, against what, reproducibly. Never imported by the product."""
