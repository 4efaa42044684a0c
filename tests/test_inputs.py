"""A user's table, read on the driver: what is taken, and how the rest is refused."""

import datetime
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import read_table, typed
from scribe_spark.runtime.remote_inputs import read_remote

COLUMNS = {"group": "int", "share": "float"}


def written(folder: Path, text: str) -> str:
    path = folder / "table.csv"
    path.write_text(text)
    return str(path)


def refusal(path: str, columns=COLUMNS) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, "members", columns)
    message = str(caught.value)
    assert message.startswith(f"members = {path!r}: ")
    assert "\n" not in message
    return message


def test_parquet_file_folder_and_url(tmp_path):
    frame = pd.DataFrame({"other": "x", "share": [0.5, 3.0], "group": [1, 2]})
    folder = tmp_path / "a folder"
    folder.mkdir()
    frame.iloc[:1].to_parquet(folder / "part-0.parquet")
    frame.iloc[1:].to_parquet(folder / "part-1.parquet")
    (folder / "_SUCCESS").touch()
    frame.to_parquet(tmp_path / "oddly.named")
    for path in (str(folder), folder.as_uri(), f"file:{tmp_path}/oddly.named"):
        table = read_table(path, "members", COLUMNS)
        assert table.to_dict("list") == {"group": [1, 2], "share": [0.5, 3.0]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        ("group,share\n", "has no rows"),
        ("group,size\n1,2\n", "no column 'share'; needs group, share; found group, size"),
        ("group,share\n1,2,3\n", "more cells than its header"),
        ("group,share\n1,2\n1,2,3\n", "line 3"),
        ("group,share\n1,2\n1.5,2\n", "'group' must be a whole number: row 2 (group=1.5)"),
        ("group,share\nx,2\n", "'group' must be a whole number: row 1 (group='x')"),
        ("group,share\nTrue,2\n", "row 1 (group='True')"),
        ("group,share\n1e300,2\n", "'group' must be below 2^63: row 1 (group=1e300)"),
        ("group,share\n0x10,2\n1_0,2\n", "row 1 (group='0x10'), row 2 (group='1_0')"),
        ("group,share\n9007199254740993.5,2\n", "'group' must be a whole number"),
        (f"group,share\n{2**63},2\n", "'group' must be below 2^63"),
        ("group,share\n1,2\n,2\n", "row 2 (group=missing)"),
        ("group,share\n1,\n1,inf\n1,nan\n1,z\n", "row 1 (share=missing), row 2 (share='inf')"),
        ("group,share\n1,\n1,inf\n1,nan\n1,z\n", "'share' must be a finite number"),
        ("group,share\n1,\n1,inf\n1,nan\n1,z\n", " and 1 more"),
    ],
)
def test_malformed_csv_is_refused(tmp_path, text, says):
    assert says in refusal(written(tmp_path, text))


def test_missing_remote_and_broken_files(tmp_path):
    assert "does not exist" in refusal(str(tmp_path / "none.csv"))
    assert "not on this machine" in refusal("s3a://bucket/members.csv")
    (tmp_path / "empty").mkdir()
    assert "holds no *.parquet" in refusal(str(tmp_path / "empty"))
    for name, content in (("a.csv", b"\xff\xfe\x00"), ("b.parquet", b"PAR1 but not really")):
        (tmp_path / name).write_bytes(content)
        assert "cannot be read" in refusal(str(tmp_path / name))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip", "zst", "tar", "tar.gz"])
def test_broken_compressed_tables(tmp_path, suffix):
    """Cut off in the middle, and with some bytes exchanged."""
    whole = tmp_path / f"whole.csv.{suffix}"
    if suffix == "zst":  # as its format begins; reading it takes a package that may be missing
        whole.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(range(200)))
    else:
        rows = "".join(f"{n},{n * n % 977}\n" for n in range(5000))
        pd.read_csv(io.StringIO("group,share\n" + rows)).to_csv(whole, index=False)
        assert len(read_table(str(whole), "members", COLUMNS)) == 5000
    content = whole.read_bytes()
    middle = len(content) // 2
    for damaged in (content[:middle], content[:middle] + b"\xff" * 9 + content[middle + 9 :]):
        broken = tmp_path / f"broken.csv.{suffix}"
        broken.write_bytes(damaged)
        assert "cannot be read as a CSV or Parquet table: " in refusal(str(broken))


def test_texts(tmp_path):
    """Of any type that pandas has for them, and nothing else."""
    names = {"name": "str"}
    table = read_table(written(tmp_path, 'name\n a b\n"c, d"\n'), "members", names)
    assert table["name"].tolist() == ["a b", "c, d"]
    path = tmp_path / "x.parquet"
    for dtype in (object, "string", "category", "string[pyarrow]"):
        pd.DataFrame({"name": pd.array(["a", "b"], dtype)}).to_parquet(path)
        assert read_table(str(path), "members", names)["name"].tolist() == ["a", "b"]
        pd.DataFrame({"name": pd.array(["a", None], dtype)}).to_parquet(path)
        assert "'name' must be a text: row 2 (name=missing)" in refusal(str(path), names)
    for cells in ([1, 2], [1.5, 2.5], [True, False], [b"a", b"b"]):
        pd.DataFrame({"name": cells}).to_parquet(path)
        assert "'name' must be a text, but its type is " in refusal(str(path), names)
    assert "row 2 (name=missing)" in refusal(written(tmp_path, "name,x\na,1\n,2\n"), names)
    assert read_table(written(tmp_path, "name\n1\n"), "members", names)["name"].tolist() == ["1"]


def test_a_column_that_is_there_twice(tmp_path):
    says = "has the column 'share' twice; keep one; found group, share, share"
    assert says in refusal(written(tmp_path, "group,share,share\n1,2,3\n"))
    assert says in refusal(written(tmp_path, "group, share,share\n"))
    twice = pa.table([[1], [2.0], [3.0]], names=["group", "share", "share"])
    pq.write_table(twice, tmp_path / "x.parquet")
    assert says in refusal(str(tmp_path / "x.parquet"))
    # of columns that are not asked for there may be many
    table = read_table(written(tmp_path, "group,share,x,x\n1,2,3,4\n"), "members", COLUMNS)
    assert table.to_dict("list") == {"group": [1], "share": [2.0]}
    frame = pd.DataFrame([[1, 2.0, 3.0]], columns=["group", "share", "share"])
    with pytest.raises(InputError, match="has the column 'share' twice"):
        typed(frame, "members", "a frame", COLUMNS)


# What people have

HEADER = {"group": "int", "share": "float", "rank": "optional int"}

#: The same table, as programs write it.
WRITTEN = {
    "commas": "group,share,rank\n0,0.5,9007199254740993\n1,3,\n",
    "semicolons": "rank;share;group\n9007199254740993;0.5;0\n;3;1\n",
    "tabs": "group\tshare\trank\n0\t0.5\t9007199254740993\n1\t3\t\n",
    "comments": "# by hand\n\ngroup,share,rank\n# first\n0,0.5,9007199254740993\n  #\n1,3,\n",
    "blanks": " group , share , rank \n 0 , 0.5 , 9007199254740993 \n 1 , 3 , \n   \n",
    "Windows": "\ufeffgroup;share;rank\r\n0;0.5;9007199254740993\r\n1;3;\r\n",
    "reals": "group,share,rank\n0.0,0.5,9007199254740993.0\n1.0,3.0,\n",
    "quotes": '"group","share","rank"\n"0","0.5","9007199254740993"\n"1","3",""\n',
    "others": "name,group,a#b,share,rank,x;y\n#,a,b\na,0,#1,0.5,9007199254740993,\nb,1,,3,,;\n",
}
ROWS = [(0, 0.5, 2**53 + 1), (1, 3.0, None)]


def rows_of(table: pd.DataFrame) -> list[tuple]:
    cells = table.astype(object).where(table.notna(), None)
    return [tuple(row) for row in cells.itertuples(index=False)]


@pytest.mark.parametrize("case", WRITTEN)
def test_texts_that_people_have(tmp_path, case):
    table = read_table(written(tmp_path, WRITTEN[case]), "members", HEADER)
    assert rows_of(table) == ROWS
    assert table.dtypes.tolist() == [np.int64, np.float64, pd.Int64Dtype()]


@pytest.mark.parametrize("case", ["large", "nullable", "index", "levels", "counted"])
def test_parquet_tables_that_pandas_writes(tmp_path, case):
    """Integers beside NULLs, and columns that are the index of a frame."""
    path = tmp_path / "x.parquet"
    columns = {"group": [0, 1], "share": [0.5, 3.0], "rank": [2**53 + 1, None]}
    if case == "large":  # pandas itself would read the ranks as float64
        pq.write_table(pa.table(columns), path)
    else:
        frame = pd.DataFrame({**columns, "rank": pd.array(columns["rank"], "Int64")})
        if case == "index":
            frame = frame.set_index("group")
        elif case == "levels":
            frame = frame.set_index(["rank", "group"])
        elif case == "counted":
            frame = frame.drop(columns="group").rename_axis("group")
        frame.to_parquet(path)
    assert rows_of(read_table(str(path), "members", HEADER)) == ROWS


UNITS = {
    "durations": pa.array([2_500_000], pa.duration("ns")),
    "times": pa.array([5], pa.timestamp("ms")),
    "times of day": pa.array([5], pa.time32("ms")),
    "days": pa.array([5], pa.date32()),
    "truth values": pa.array([True]),
    "lists": pa.array([[1]]),
    "records": pa.array([{"real": 1.0, "imag": 2.0}]),
}


#: Columns of pandas alone.
ODD = {
    "objects": pd.Series([datetime.timedelta(milliseconds=2.5)], dtype=object),
    "periods": pd.Series(pd.period_range("2002", periods=1)),
    "complex numbers": pd.Series([1 + 2j]),
    "intervals": pd.Series(pd.interval_range(0, 1)),
}


@pytest.mark.parametrize("case", [*UNITS, *ODD])
@pytest.mark.parametrize("column", ["group", "share", "rank"])
def test_units_are_not_left_out(tmp_path, case, column):
    """In a Parquet table, and in a frame that is made of it."""
    numbers = {name: pa.array([1]) for name in HEADER}
    if case in ODD:
        frames = [pa.table(numbers).to_pandas().assign(**{column: ODD[case]})]
    else:
        table = pa.table({**numbers, column: UNITS[case]})
        pq.write_table(table, tmp_path / "x.parquet")
        says = f"column '{column}' must be a .* number, but its type is .*; convert it"
        with pytest.raises(InputError, match=says):
            read_table(str(tmp_path / "x.parquet"), "members", HEADER)
        frames = [table.to_pandas(types_mapper=mapper) for mapper in (None, pd.ArrowDtype)]
    for frame in frames:
        with pytest.raises(InputError, match=f"column '{column}' must be "):
            typed(frame, "members", "a frame", HEADER)


# By Spark, with the same rows


@pytest.mark.parametrize("case", ["comments", "Windows", "others"])
def test_remote_rows_are_the_local_ones(spark, tmp_path, case):
    path = written(tmp_path, WRITTEN[case])
    assert rows_of(read_remote(spark, path, "members", HEADER)) == ROWS


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_that_spark_has_written(spark, tmp_path, kind):
    frame = spark.createDataFrame(
        [(g, s, r) for g, s, r in ROWS], "group int, share double, rank long"
    )
    folder = str(tmp_path / f"x.{kind}")
    getattr(frame.repartition(2).write.option("header", "true"), kind)(folder)
    assert sorted(rows_of(read_remote(spark, folder, "members", HEADER))) == ROWS


@pytest.mark.parametrize("pattern", ["x.csv", "*.csv/p*.csv", "x.csv/p*.csv"])
def test_all_files_of_a_folder_or_pattern_are_read(spark, tmp_path, pattern):
    """The files have the header, or not; comments may stand before it."""
    folder = tmp_path / "x.csv"
    folder.mkdir()
    for number, text in enumerate(("# a\ngroup,share\n1,0.5", "group,share\n2,1\n", "3,2\n")):
        (folder / f"p{number}.csv").write_text(text)
    (folder / "p3.csv").touch()
    read = read_remote(spark, str(tmp_path / pattern), "members", COLUMNS)
    assert sorted(read["group"]) == [1, 2, 3]


def test_remote_tables_that_cannot_be_read(spark, tmp_path, monkeypatch):
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but not really")
    (tmp_path / "empty.csv").touch()
    for path, why in (
        (str(tmp_path / "empty.csv"), "it is empty"),
        (str(tmp_path / "none.csv.gz"), "cannot be read by Spark: "),
        (str(tmp_path / "b.parquet"), "cannot be read as a CSV or Parquet table: "),
        (
            written(tmp_path, "group,share\n1,soon\n"),
            "must be a finite number: row 1 (share='soon'",
        ),
    ):
        with pytest.raises(InputError) as caught:
            read_remote(spark, path, "members", COLUMNS)
        assert str(caught.value).startswith(f"members = {path!r}: ")
        assert why in str(caught.value)
        assert "\n" not in str(caught.value)
    monkeypatch.setattr("scribe_spark.core.paths.check_size.__defaults__", (5,))
    with pytest.raises(InputError, match="has more than 5 bytes"):
        read_remote(spark, path, "members", COLUMNS)
