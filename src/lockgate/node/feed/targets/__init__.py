"""Where a feed's rows go, one file per kind of target, all behind the same verbs (`port`)."""
