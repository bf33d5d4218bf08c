"""The link between nodes: messages of their cores, and verbs for the node that can answer them.

    core ─ Send ─► transport ─► outbox ─► sender ─► client ═ HTTP ═► api ─► intake ─► core
                                 one of each per peer

What the core asks of it is little (`core.ports.Transport`: anything may be lost, repeated, late),
and what it promises is that nothing is altered, that nothing reaches a node that it was not meant
for, that a silent peer holds up nobody, and that whatever is lost is counted.
"""
