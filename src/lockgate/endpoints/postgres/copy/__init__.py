"""The initial copy: chunks of tables, read under one snapshot, written behind the fence."""
