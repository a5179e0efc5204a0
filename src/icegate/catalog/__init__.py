"""The Iceberg catalog: open it, create the tables, publish to them."""
