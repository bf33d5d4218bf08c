"""Carrying sequences: the taking side goes on where the giving side stopped.

Nobody writes at either side meanwhile. Sequences are outside of all transactions, so nothing of
this can be rolled back, and nothing has to be: a sequence is never set back, and one that is ahead
does no harm. With a mark it is fenced like every other verb: whoever was paused between reading a
value and setting it is ended by a later keeper, and does not set back what is in use by then.
"""

from collections.abc import Sequence

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.cutover.row import MoveMark
from lockgate.endpoints.postgres.cutover.visit import visiting
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.discover import discover
from lockgate.endpoints.postgres.schema.sequences import read_sequences, set_sequences
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["carry"]


def carry(
    giving: PostgresUrl | str | Secret,
    taking: PostgresUrl | str | Secret,
    tables: Sequence[TableName],
    *,
    mark: MoveMark | None = None,
) -> dict[str, int]:
    """Set the taking side's sequences beyond the giving side's, and beyond every value in the rows.

    Answers what each follows now, by name. Those are the sequences that columns of the tables take
    values from; one that is only asked by name, by somebody's program, is not known here.
    """
    with connect(giving, purpose="move sequences", autocommit=True) as connection:
        definitions = discover(connection, tables)
        states = read_sequences(connection, definitions.values())
    plans = [TablePlan(definition, name) for name, definition in definitions.items()]
    if mark is None:
        with connect(taking, purpose="move sequences", autocommit=True) as connection:
            done = set_sequences(connection, states, plans)
    else:
        with visiting(taking, mark, "set sequences") as visit, visit.transaction() as cursor:
            visit.row(cursor)
            done = set_sequences(cursor.connection, states, plans)
    return {str(name): value for name, value in done.items()}
