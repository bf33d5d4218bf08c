"""What has to survive: the metastore (SQL) and the change-log segments."""
