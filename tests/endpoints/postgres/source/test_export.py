"""Snapshots of a position: whoever keeps one from being taken is named, in whichever database."""

import pytest

from lockgate.endpoints.postgres.source.export import exported_at_a_position
from lockgate.model.errors import EndpointBusy
from tests.support.changes import Place
from tests.support.databases import left_open


def test_a_transaction_that_stays_open_is_named_with_a_way_to_end_it(here: Place) -> None:
    with left_open(here.url.to_wire().decode()) as holder:
        taken = exported_at_a_position(here.url, "feed", 0.5)
        with pytest.raises(EndpointBusy, match="nightly job, database postgres") as failed, taken:
            pass
        assert f"pg_terminate_backend({holder.info.backend_pid})" in failed.value.hint
