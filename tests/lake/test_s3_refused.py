"""An object store that does not let us: who has lost a right, a key or the bucket is told so.

The store asks for valid keys and rights here, once a table is there; its own words reach us through
pyarrow and through delta-rs, each of which has a form of its own for them.
"""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.check import check_lake
from lockgate.endpoints.delta.faults import BucketMissing, faults
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import delete_file, write_file
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.lake.opening import place_of
from lockgate.model.errors import EndpointUnavailable, LockgateError, MissingPrivilege
from lockgate.model.lake import WorkKind, WorkOutcome
from lockgate.model.lake_instructions import RunWork
from lockgate.node.lake.works import Workbench
from tests.support.lakes import DISPATCHER, LEADER, ROWS
from tests.support.object_store import OPTIONS, PYTHON, serving

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="`make object-store` has not been run")

T = "public.t"
ROW = pa.table({"id": [1]})


class Store:
    """Its address, and the keys of users who may not do everything."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.keys: dict[str, dict[str, str]] = {
            "a key that the store does not know": {},
            "a user without rights": self._user("nobody"),
            "a user who may do all": self._user("owner", "s3:*"),
            "a user who may read": self._user("reader", "s3:GetObject", "s3:ListBucket"),
        }
        wrong = {**self.keys["a user without rights"], "aws_secret_access_key": "wrong"}
        self.keys["a wrong secret"] = wrong

    def ask(self, service: str, path: str, data: bytes, method: str = "POST") -> str:
        credential = f"{OPTIONS['aws_access_key_id']}/20260101/us-east-1/{service}/aws4_request"
        headers = {
            "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, "
            "Signature=0",
            "Content-Type": "application/x-www-form-urlencoded"
            if service == "iam"
            else "text/plain",
        }
        request = urllib.request.Request(f"{self.address}{path}", data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())

    def _user(self, name: str, *rights: str) -> dict[str, str]:
        """Settings of a new user with these rights."""
        self._iam(Action="CreateUser", UserName=name)
        if rights:
            said = [{"Effect": "Allow", "Action": rights, "Resource": "*"}]
            policy = json.dumps({"Version": "2012-10-17", "Statement": said})
            self._iam(Action="PutUserPolicy", UserName=name, PolicyName="p", PolicyDocument=policy)
        made = self._iam(Action="CreateAccessKey", UserName=name)
        key, secret = (
            re.search(f"<{tag}>(.*?)</{tag}>", made) for tag in ("AccessKeyId", "SecretAccessKey")
        )
        assert key is not None
        assert secret is not None
        return {"aws_access_key_id": key[1], "aws_secret_access_key": secret[1]}

    def _iam(self, **form: str) -> str:
        return self.ask("iam", "/", urllib.parse.urlencode(form).encode())

    def settings(self, who: str) -> dict[str, str]:
        return {**OPTIONS, "aws_endpoint_url": self.address, **self.keys[who]}

    def lake(self, who: str, bucket: str = "bucket") -> Place:
        return place_of(f"s3://{bucket}/lake", self.settings(who))


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store with a table in it, that looks at keys and rights from then on."""
    with serving() as address:
        store = Store(address)
        store.ask("s3", "/bucket", b"", "PUT")
        lake = Lake(store.lake("a key that the store does not know"))
        LayeredTable.create(lake.place(T, 1), "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
        store.ask("moto-api", "/moto-api/reset-auth", b"0")
        yield store


def lists(lake: Place) -> object:
    return Lake(lake).tables()


def opens(lake: Place) -> object:
    return FencedTable.open(Lake(lake).place(T, 1).child(STABLE))


def makes(lake: Place) -> object:
    return FencedTable.create(lake.child("new"), ROWS, LEADER)


def writes(lake: Place) -> object:
    return write_file(lake, ROW, [])


def deletes(lake: Place) -> None:
    delete_file(lake, f"{T}/1/{STABLE}/_delta_log/{0:020d}.json")


@pytest.mark.parametrize(
    "who", ["a key that the store does not know", "a user without rights", "a wrong secret"]
)
@pytest.mark.parametrize("act", [lists, opens, makes, writes, deletes])
def test_who_may_do_nothing_is_told_to_see_to_keys_and_rights(
    store: Store, who: str, act: Callable[[Place], object]
) -> None:
    with pytest.raises(MissingPrivilege) as caught:
        act(store.lake(who))
    assert "keys" in caught.value.hint
    assert "bucket" in caught.value.hint


@pytest.mark.parametrize("act", [makes, writes, deletes])
def test_who_may_only_read_is_told_the_same_of_writing(
    store: Store, act: Callable[[Place], object]
) -> None:
    lake = store.lake("a user who may read")
    assert Lake(lake).tables() == [T]
    with pytest.raises(MissingPrivilege):
        act(lake)


def test_a_drop_that_the_store_forbids_has_failed_and_is_not_in_doubt(store: Store) -> None:
    """In doubt, it would be tried for ever."""
    bench = Workbench(store.lake("a user who may read"), "h", None, 0)  # type: ignore[arg-type]
    ended = bench.run(RunWork(1, WorkKind.KILL, T, 1, LEADER), lambda: False)
    assert ended.outcome is WorkOutcome.FAILED
    assert ended.trouble is not None
    assert "keys" in ended.trouble.hint


@pytest.mark.parametrize("act", [opens, makes, writes])
def test_a_bucket_that_is_not_there_is_not_taken_for_a_lost_table(
    store: Store, act: Callable[[Place], object]
) -> None:
    with pytest.raises(BucketMissing) as caught:
        act(store.lake("a user who may do all", "another"))
    assert "names the bucket" in caught.value.hint


def test_an_endpoint_is_not_taken_whose_bucket_is_not_there(store: Store) -> None:
    settings = store.settings("a user who may do all")
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    [found] = check_lake(LakeUrl.parse(f"delta:s3://another/lake?{query}"))
    assert found.code == "bucket-missing"


@pytest.mark.parametrize(
    "said",
    [
        "When listing objects under key 'lake/' in bucket 'bucket': AWS Error UNKNOWN (HTTP status "
        "400) during ListObjectsV2 operation: Unable to parse ExceptionName: ExpiredToken Message: "
        "The provided token has expired.",
        "Generic S3 error: Server returned non-2xx status code: 400 Bad Request: <Error><Code>"
        "ExpiredToken</Code><Message>The provided token has expired.</Message></Error>",
        "The operation lacked valid authentication credentials for path lake/x: 401 Unauthorized",
    ],
)
def test_a_token_that_has_expired_is_a_matter_of_keys(said: str) -> None:
    with pytest.raises(MissingPrivilege):
        _said(said)


@pytest.mark.parametrize("name", ["access_denied", "NoSuchBucket", "expiredtoken"])
def test_a_table_that_is_called_like_a_fault_is_none(name: str) -> None:
    with pytest.raises(EndpointUnavailable):
        _said(f"Error performing GET http://store/bucket/public.{name}/1: connection reset")


def _said(text: str) -> Any:
    with faults("list", Place("s3://bucket/lake", "lake")):
        raise OSError(text)


def test_a_store_that_is_away_is_away(store: Store) -> None:
    away = {**store.settings("a user who may read"), "aws_endpoint_url": "http://127.0.0.1:1"}
    with pytest.raises(LockgateError) as caught:
        lists(place_of("s3://bucket/lake", away))
    assert type(caught.value) is EndpointUnavailable
