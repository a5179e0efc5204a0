"""Rolls the WAL into the Iceberg tables: plan, stage on Spark, publish in one commit.

Start at ``icegate_compactor.compactor``. This file imports nothing: Spark's workers load the package too, and need
only its tasks.
"""
