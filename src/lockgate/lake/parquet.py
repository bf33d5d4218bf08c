"""Files of a lake for Spark's own Parquet reader."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.place import S3, Place
from lockgate.model.errors import ObjectMissing, Terminal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "SparkLacksStore",
    "arrow_schema",
    "frame_of",
    "hadoop_settings",
    "is_connect",
    "quoted",
    "spark_schema",
]


class SparkLacksStore(Terminal):
    """This Spark has no way to the object store that the lake is in."""

    code = "spark-lacks-store"


def frame_of(
    spark: "SparkSession", place: Place, files: Sequence[DataFile], schema: pa.Schema
) -> "DataFrame":
    """The rows of some files; columns that a file does not have are NULL in it."""
    from pyspark.errors import PySparkException

    wanted = spark_schema(schema)
    if not files:
        return spark.createDataFrame([], wanted)
    base = place.url
    reader = spark.read.schema(wanted)
    if base.startswith(S3):
        base = "s3a://" + base.split("://", 1)[1]
        if not is_connect(spark):
            reader = reader.options(**hadoop_settings(place))
    try:
        return reader.parquet(*(f"{base}/{file.path}" for file in files))
    except PySparkException as error:
        raise _named(error, place) from error
    except Exception as error:
        if "S3AFileSystem" in str(error):  # comes through Py4J as it is
            raise _named(error, place) from None
        raise


def spark_schema(schema: pa.Schema) -> "StructType":
    """The columns as Spark has them. A timestamp without a zone stays one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def quoted(schema: pa.Schema) -> list[str]:
    """The names of columns for Spark, which takes a dot for the way into a structure."""
    return ["`" + name.replace("`", "``") + "`" for name in schema.names]


def arrow_schema(schema: "StructType") -> pa.Schema:
    """What Spark takes of Arrow for such columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def hadoop_settings(place: Place) -> dict[str, str]:
    """What Hadoop's S3A wants to know, by its own names."""
    endpoint = place.setting("endpoint_url")
    virtual = place.setting("virtual_hosted_style_request") == "true"
    settings = {
        "fs.s3a.access.key": place.setting("access_key_id"),
        "fs.s3a.secret.key": place.setting("secret_access_key"),
        "fs.s3a.session.token": place.setting("session_token"),
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": place.setting("region"),
        "fs.s3a.path.style.access": "true" if endpoint and not virtual else None,
        "fs.s3a.connection.ssl.enabled": "false" if (endpoint or "")[:5] == "http:" else None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def is_connect(spark: "SparkSession") -> bool:
    """True when the driver is elsewhere. It has settings of its own for its stores: ours would
    stand in the plan that is sent to it, and in its records."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _named(error: Exception, place: Place) -> Terminal:
    if "S3AFileSystem" in str(error):
        return SparkLacksStore(
            "this Spark cannot read from S3",
            object_=place.label,
            hint='start it with hadoop-aws on its class path, or read with format("lockgate")',
            operation="read",
            cause="there is no class S3AFileSystem",
        )
    return ObjectMissing(
        "Spark does not find files of the table",
        object_=place.label,
        hint="see that its executors reach the lake under the same path",
        operation="read",
        cause=error,
    )
