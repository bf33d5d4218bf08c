"""A lake in an object store: what Spark's own reader needs to know, and what is said without."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.place import Place
from lockgate.lake.opening import place_of
from lockgate.lake.parquet import SparkLacksStore, frame_of, hadoop_settings
from lockgate.model.errors import ObjectMissing
from lockgate.pipeline.session import Spark
from tests.support.lakes import ROWS

OPTIONS = {
    "AWS_ACCESS_KEY_ID": "AKIDOURS",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "AWS_REGION": "eu-north-7",
}


def test_the_settings_are_handed_to_spark_by_hadoops_names() -> None:
    assert hadoop_settings(place_of("s3://bucket/lake", OPTIONS)) == {
        "fs.s3a.access.key": "AKIDOURS",
        "fs.s3a.secret.key": "hush",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.endpoint.region": "eu-north-7",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    assert hadoop_settings(place_of("s3://bucket/lake")) == {}


def test_an_endpoints_address_is_a_path_too(tmp_path: Path) -> None:
    place = place_of("delta:s3://bucket/lake/?aws_region=eu-north-7", {"aws_access_key_id": "A"})
    assert place.url == "s3://bucket/lake"
    assert {name: value.reveal() for name, value in place.settings.items()} == {
        "aws_region": "eu-north-7",
        "aws_access_key_id": "A",
    }
    assert place_of(f"delta:{tmp_path}").url == str(tmp_path)
    assert place_of(f"{tmp_path}/").url == str(tmp_path)


def test_options_are_kept_as_secrets() -> None:
    assert "hush" not in repr(place_of("s3://bucket/lake", OPTIONS))


def test_a_spark_without_hadoop_aws_is_told_so(spark: Spark) -> None:
    file = DataFile("x.parquet", 1, 1)
    with pytest.raises(SparkLacksStore, match="this Spark cannot read from S3") as refused:
        frame_of(spark.session, place_of("s3://bucket/lake", OPTIONS), [file], ROWS)
    assert "hadoop-aws" in refused.value.hint
    assert "hush" not in str(refused.value)


def test_files_that_spark_does_not_find_are_an_error_of_ours(spark: Spark) -> None:
    with pytest.raises(ObjectMissing):
        frame_of(spark.session, Place("/nowhere", "lake"), [DataFile("x", 1, 1)], ROWS)
