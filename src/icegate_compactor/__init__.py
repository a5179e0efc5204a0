"""Rolls the WAL into the Iceberg tables: plan, stage on Spark, publish in one commit."""
