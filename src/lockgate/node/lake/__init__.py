"""Lakes on this node: the core's keeper of each lake, and what it wants done, done for real.

hosts       which lakes are kept here: all of the installation's, on the coordinator's node
host        one keeper, on a thread of its own
executing   its instructions: metastore, lake, workers
surveying   what there is in a lake
works       one piece of work on one table
"""
