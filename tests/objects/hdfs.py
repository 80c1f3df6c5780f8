"""HDFS: a NameNode and a DataNode in one JVM, of Hadoop's jars, and libhdfs, compiled of Hadoop's sources.

The sources are in a crate, as no registry has the library itself.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.broker import jvm
from tests.objects.servers import Asked, Server, built, do, needs, running
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POM = jvm.SOURCES / "hdfs.xml"
_INCLUDED = ("include", "os", "os/posix")
_CRATE = "hdfs-sys"
_CRATE_VERSION = "0.3.0"
_MANIFEST = f"""[package]
name = "sources"
version = "0.0.0"
edition = "2021"
[dependencies]
{_CRATE} = "={_CRATE_VERSION}"
"""
# At a file's end a client waits so many milliseconds if the NameNode does not know it yet; by default 400.
_SETTINGS = """<configuration><property>
<name>dfs.client.block.write.locateFollowingBlock.initial.delay.ms</name><value>10</value>
</property></configuration>
"""
# Parts of the jars that a client is; the others hold the servers.
_CLIENT = ("hadoop-client-api", "hadoop-client-runtime", "commons-", "slf4j-")


def _compile(target: Path, java: Path) -> None:
    """Make a folder with ``libhdfs.so``."""
    (target / "src").mkdir()
    (target / "src" / "lib.rs").touch()
    (target / "Cargo.toml").write_text(_MANIFEST)
    do("cargo", "vendor", "-q", "vendor", folder=target)
    top = target / "vendor" / _CRATE / "libhdfs"
    sources = top / "hdfs_3_3"
    folders = [java / "include", java / "include/linux", top, sources, *(sources / one for one in _INCLUDED)]
    code = sorted([*sources.glob("*.c"), *(sources / "os/posix").glob("*.c")])
    jvm_library = java / "lib/server"
    linked = [f"-L{jvm_library}", "-ljvm", f"-Wl,-rpath,{jvm_library}", "-lpthread"]
    flags = ["-w", "-O1", "-shared", "-fPIC", "-fcommon", *(f"-I{one}" for one in folders)]
    do("gcc", *flags, "-o", target / "libhdfs.so", *code, *linked, folder=target)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run one in a folder."""
    needs("cargo", "gcc")
    tools = jvm.toolchain()
    if isinstance(tools, str):
        pytest.skip(tools)
    home = tools.java.parents[1]
    jars = built("hadoop-3.4.2", lambda target: jvm.copy_jars(target, _POM))
    library = built(
        f"libhdfs-{_CRATE_VERSION}-jdk{tools.java_version}", lambda target: _compile(target, home)
    )
    details = folder / "details.json"
    (folder / "hdfs-site.xml").write_text(_SETTINGS)
    command: list[str | Path] = [
        *(tools.java, "-XX:+UseSerialGC", *jvm.SHORT_LIVED, "--add-opens=java.base/java.lang=ALL-UNNAMED"),
        *(f"-Dtest.build.data={folder / 'data'}", f"-Dhadoop.log.dir={folder}", "-cp", f"{jars}/*"),
        *("org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-writeDetails", details),
    ]
    with running(command, folder, lambda: details.exists() and details.read_text().endswith("}")):
        url = f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
        client = sorted(str(one) for one in jars.glob("*.jar") if one.name.startswith(_CLIENT))
        environment = {
            "CLASSPATH": ":".join([str(folder), *client]),
            "JAVA_HOME": str(home),
            "ARROW_LIBHDFS_DIR": str(library),
            "HADOOP_HOME": None,
        }
        yield Server(
            Asked(url, environment),
            Asked(f"hdfs://127.0.0.1:{free_ports()}", environment, "[Errno 111] Connection refused"),
            {
                "jars": Asked(url, environment | {"CLASSPATH": None}, "CLASSPATH names no jars of Hadoop's"),
                "library": Asked(
                    url, environment | {"ARROW_LIBHDFS_DIR": str(folder)}, "pyarrow finds no libhdfs;"
                ),
                "host": Asked("hdfs://nowhere.invalid:8020", environment, "rmqtool help objects"),
            },
            version="Last-Modified",
        )
