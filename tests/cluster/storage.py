"""HDFS and S3 on this machine, and a look into them that owes nothing to Spark."""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

from .fetch import s3a
from .processes import running

__all__ = ["Hdfs", "S3", "Storage", "hdfs_server", "s3_server"]

#: Where the jars are (`fetch`).
JARS = Path(__file__).resolve().parents[2] / ".cluster"

#: Seconds that a server may take to answer.
PATIENCE = 60


class Storage(Protocol):
    """What the tests want of a storage; paths have no slash in front."""

    @property
    def options(self) -> list[str]:
        """What ``spark-submit`` needs to use it."""

    def url(self, path: str) -> str:
        """What Spark calls the path."""

    def files(self, path: str) -> dict[str, str]:
        """All below a folder, by path relative to it, and a text that changes with the content.

        A folder that is empty, or has a marker of its own, ends in a slash.
        """

    def read(self, path: str) -> bytes:
        """A file's content."""

    def write(self, path: str, content: bytes) -> None:
        """Make a file."""

    def delete(self, path: str) -> None:
        """Delete a file."""


def _ask(url: str, method: str = "GET", content: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, data=content, method=method)
    # never through a proxy: the servers are on this machine
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PATIENCE) as answer:
        return answer.read()


# ------------------------------------------------------------------------------------ HDFS


@dataclass(frozen=True)
class Hdfs:
    """HDFS through WebHDFS.

    Attributes
    ----------
    port : int
        Of the name node's protocol.
    web : str
        Host and port of the name node's pages.
    """

    port: int
    web: str

    options: tuple[str, ...] = ()

    def url(self, path: str) -> str:
        return f"hdfs://localhost:{self.port}/{path}"

    def files(self, path: str) -> dict[str, str]:
        return {name.removeprefix(f"{path}/"): change for name, change in self._walk(path)}

    def _walk(self, path: str) -> Iterator[tuple[str, str]]:
        entries = json.loads(self._call(path, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        if not entries:
            yield f"{path}/", "empty folder"
        for entry in entries:
            below = f"{path}/{entry['pathSuffix']}"
            if entry["type"] == "DIRECTORY":
                yield from self._walk(below)
            else:
                yield below, f"{entry['fileId']} {entry['modificationTime']} {entry['length']}"

    def read(self, path: str) -> bytes:
        return self._call(path, "OPEN")

    def write(self, path: str, content: bytes) -> None:
        where = json.loads(self._call(path, "CREATE&noredirect=true", "PUT"))["Location"]
        _ask(where, "PUT", content)

    def delete(self, path: str) -> None:
        self._call(path, "DELETE", "DELETE")

    def _call(self, path: str, operation: str, method: str = "GET") -> bytes:
        place = urllib.parse.quote(path)
        return _ask(f"http://{self.web}/webhdfs/v1/{place}?op={operation}&user.name=root", method)


@contextmanager
def hdfs_server(folder: Path) -> Iterator[Hdfs]:
    """A name node and a data node in a JVM of their own: Hadoop's classes are not Spark's."""
    settings = folder / "hdfs-site.xml"
    command = [
        *("java", "-Xmx512m", f"-Dtest.build.data={folder / 'data'}"),
        *("-cp", str(JARS / "hdfs" / "jars" / "*"), "org.apache.hadoop.test.MiniDFSClusterManager"),
        *("-format", "-datanodes", "1", "-writeConfig", str(settings)),
        # drivers and executors may be any user
        *("-D", "dfs.permissions.enabled=false"),
        *("-writeDetails", "/dev/stdout"),
    ]
    with running(command, folder / "hdfs.log", folder) as program:
        port = int(program.wait_for(r'"namenode_port":(\d+)')[1])
        found = {
            entry.findtext("name"): entry.findtext("value")
            for entry in ElementTree.parse(settings).getroot()
        }
        yield Hdfs(port, str(found["dfs.namenode.http-address"]))


# ------------------------------------------------------------------------------------ S3


@dataclass(frozen=True)
class S3:
    """A bucket through S3's own protocol; this server asks for no signature.

    Attributes
    ----------
    address : str
        The server's URL.
    bucket : str
    """

    address: str
    bucket: str = "bucket"

    @property
    def options(self) -> tuple[str, ...]:
        settings = {
            "endpoint": self.address,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
        }
        conf = [f"spark.hadoop.fs.s3a.{name}={value}" for name, value in settings.items()]
        conf.append(f"spark.jars.ivy={JARS / 's3a'}")
        return ("--packages", s3a(), *(word for text in conf for word in ("--conf", text)))

    def create(self) -> None:
        """Make the bucket."""
        _ask(f"{self.address}/{self.bucket}", "PUT")

    def url(self, path: str) -> str:
        return f"s3a://{self.bucket}/{path}"

    def files(self, path: str) -> dict[str, str]:
        prefix = f"{path}/"
        return {
            _text(entry, "Key").removeprefix(prefix): f"{_text(entry, 'ETag')} "
            f"{_text(entry, 'LastModified')}"
            for page in self._pages({"list-type": "2", "prefix": prefix})
            for entry in page.iterfind("{*}Contents")
        } | {
            # nobody sees these, but they cost
            f"{_text(entry, 'Key').removeprefix(prefix)} (unfinished upload)": ""
            for page in self._pages({"uploads": "", "prefix": prefix})
            for entry in page.iterfind("{*}Upload")
        }

    def _pages(self, query: dict[str, str]) -> Iterator[Any]:
        more: dict[str, str] = {}
        while True:
            text = _ask(f"{self.address}/{self.bucket}?{urllib.parse.urlencode(query | more)}")
            page = ElementTree.fromstring(text)
            yield page
            following = page.findtext("{*}NextContinuationToken")
            if not following:
                return
            more = {"continuation-token": following}

    def read(self, path: str) -> bytes:
        return _ask(self._at(path))

    def write(self, path: str, content: bytes) -> None:
        _ask(self._at(path), "PUT", content)

    def delete(self, path: str) -> None:
        _ask(self._at(path), "DELETE")

    def _at(self, path: str) -> str:
        return f"{self.address}/{self.bucket}/{urllib.parse.quote(path)}"


def _text(entry: Any, name: str) -> str:
    return str(entry.findtext(f"{{*}}{name}"))


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """An S3 server with one empty bucket, in memory."""
    program = str(Path(sys.executable).parent / "moto_server")
    command = [program, "--host", "127.0.0.1", "--port", "0"]
    with running(command, folder / "s3.log", folder) as server:
        address = server.wait_for(r"Running on (http://[\d.:]+)")[1]
        storage = S3(address)
        storage.create()
        yield storage
