"""What each verb does: takes the request apart, asks the service, puts the answer together."""
