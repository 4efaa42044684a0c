"""HDFS and S3 on this machine, and a look into them that owes nothing to the project."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.java_gateway import launch_gateway

from .fetch import s3a
from .processes import running

#: Where the jars are (`fetch`).
JARS = Path(__file__).resolve().parents[2] / ".cluster"


# ------------------------------------------------------------------------------------ HDFS


@dataclass(frozen=True)
class Hdfs:
    """HDFS at an address, through the Hadoop client that comes with Spark (``org.apache.hadoop``).

    Paths of a storage have no slash in front.  `files` returns all below a folder, by path
    relative to it, with a text that changes with the content; a folder that is empty, or has a
    marker of its own, ends in a slash.
    """

    address: str
    hadoop: Any

    options: tuple[str, ...] = ()

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"

    def files(self, path: str) -> dict[str, str]:
        return {name.removeprefix(f"{path}/"): change for name, change in self._walk(path)}

    def _walk(self, path: str) -> Iterator[tuple[str, str]]:
        entries = self._file_system.listStatus(self._path(path))
        if not entries:
            yield f"{path}/", "empty folder"
        for entry in entries:
            below = f"{path}/{entry.getPath().getName()}"
            if entry.isDirectory():
                yield from self._walk(below)
            else:
                yield below, f"{entry.getModificationTime()} {entry.getLen()}"

    def read(self, path: str) -> bytes:
        stream = self._file_system.open(self._path(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        stream = self._file_system.create(self._path(path))
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def delete(self, path: str) -> None:
        self._file_system.delete(self._path(path), False)

    def _path(self, path: str) -> Any:
        return self.hadoop.fs.Path(self.url(path))

    @property
    def _file_system(self) -> Any:
        # Hadoop keeps one for each address
        return self._path("").getFileSystem(self.hadoop.conf.Configuration())


@contextmanager
def hdfs_server(folder: Path) -> Iterator[Hdfs]:
    """A name node and a data node in a JVM of their own: Hadoop's classes are not Spark's."""
    command = [
        *("java", "-Xmx512m", f"-Dtest.build.data={folder / 'data'}"),
        *("-cp", str(JARS / "hdfs" / "jars" / "*"), "org.apache.hadoop.test.MiniDFSClusterManager"),
        *("-format", "-datanodes", "1", "-writeDetails", "/dev/stdout"),
        # drivers and executors may be any user
        *("-D", "dfs.permissions.enabled=false"),
    ]
    with running(command, folder / "hdfs.log", folder) as program:
        port = program.wait_for(r'"namenode_port":(\d+)')[1]
        gateway = launch_gateway()
        try:
            yield Hdfs(f"hdfs://localhost:{port}", gateway.jvm.org.apache.hadoop)
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()  # at which the JVM ends
            gateway.proc.wait()


# ------------------------------------------------------------------------------------ S3


REGION, KEY, BUCKET = "us-east-1", "test", "bucket"

#: What the name of a file ends in that is only partly there.
UNFINISHED = "(unfinished upload)"


@dataclass(frozen=True)
class S3:
    """A bucket of the server at an address, through AWS's own client."""

    address: str

    @property
    def options(self) -> tuple[str, ...]:
        settings = {
            "endpoint": self.address, "endpoint.region": REGION, "path.style.access": "true",
            "access.key": KEY, "secret.key": KEY,
        }  # fmt: skip
        conf = [f"spark.hadoop.fs.s3a.{name}={value}" for name, value in settings.items()]
        conf.append(f"spark.jars.ivy={JARS / 's3a'}")
        return ("--packages", s3a(), *(word for text in conf for word in ("--conf", text)))

    @property
    def client(self) -> Any:
        """AWS's client of this server."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3", endpoint_url=self.address, region_name=REGION, aws_access_key_id=KEY,
            aws_secret_access_key=KEY, config=Config(proxies={}),
        )  # fmt: skip

    def url(self, path: str) -> str:
        return f"s3a://{BUCKET}/{path}"

    def files(self, path: str) -> dict[str, str]:
        where = {"Bucket": BUCKET, "Prefix": f"{path}/"}
        objects = {
            entry["Key"]: f"{entry['ETag']} {entry['LastModified']}"
            for page in self.client.get_paginator("list_objects_v2").paginate(**where)
            for entry in page.get("Contents", [])
        }
        uploads = {  # no listing of files shows these, but they are stored and paid for
            f"{entry['Key']} {UNFINISHED}": entry["UploadId"]
            for page in self.client.get_paginator("list_multipart_uploads").paginate(**where)
            for entry in page.get("Uploads", [])
        }
        return {
            name.removeprefix(f"{path}/"): change for name, change in (objects | uploads).items()
        }

    def read(self, path: str) -> bytes:
        if path.endswith(UNFINISHED):
            return b""
        return self.client.get_object(Bucket=BUCKET, Key=path)["Body"].read()

    def write(self, path: str, content: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=path, Body=content)

    def delete(self, path: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=path)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """An S3 server with one empty bucket, in memory."""
    program = str(Path(sys.executable).parent / "moto_server")
    command = [program, "--host", "127.0.0.1", "--port", "0"]
    with running(command, folder / "s3.log", folder) as server:
        address = server.wait_for(r"Running on (http://[\d.:]+)")[1]
        storage = S3(address)
        storage.client.create_bucket(Bucket=BUCKET)
        yield storage


Storage = Hdfs | S3
