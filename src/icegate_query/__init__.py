"""SQL over HTTP on the union of the Iceberg tables and the WAL after them."""
