"""Spark jobs: work items in, receipts out. DataFrames only, so that any kind of Spark serves."""
