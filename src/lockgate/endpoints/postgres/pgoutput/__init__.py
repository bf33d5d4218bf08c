"""Reading pgoutput, the format in which PostgreSQL sends logical changes, whole buffers at once.

    bytes of a connection          frames.py     where each message begins and ends
      → messages of the plugin     sources.py    from the replication protocol, or from a COPY
        → transactions, runs       transactions.py   positions
          → tuples                 tuples.py     kind, start and length of every value
            → typed columns        values.py     over the shared bytes, by NumPy and Arrow
              → segments' batches  segments.py

`decoder.Decoder` puts these together. Nothing in here talks to a server.
"""
