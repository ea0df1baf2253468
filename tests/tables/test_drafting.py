"""Drafts: from names and types alone by default; from the rows only with a notice that this is not private."""

import datetime as dt
import gzip
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core.errors import DataError, SchemaError
from hush.schema import Boolean, Categorical, Date, Integer, NumberSpelling, Numeric, Schema, TimeOfDay, Timestamp
from hush.schema.schema_toml import read_toml
from hush.tables import drafting
from hush.tables.dialects import duckdb
from hush.tables.drafting import draft_schema
from hush.tables.dry_run import dry_run

CANARY = "canary-7261"


def csv(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def parquet(folder: Path, **columns: pa.Array) -> Path:
    path = folder / "data.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def learnt(path: Path) -> dict:
    """The columns of a draft from the rows, by name."""
    return {column.name: column for column in read_toml(draft_schema(path, from_data=True))}


def test_a_csv_header_gives_kinds_by_name_and_leaves_values_open(tmp_path: Path) -> None:
    path = csv(tmp_path, f"age,sex,income,is_smoker,birth_date,person_id\n{','.join([CANARY] * 6)}\n")
    text = draft_schema(path)
    assert CANARY not in text
    assert "no row was read" in text
    assert [line for line in text.splitlines() if line.startswith("kind")] == [
        'kind = "integer"          # a guess; or "categorical", "boolean", "numeric", "date", "timestamp", "time"',
        'kind = "categorical"      # a guess; or "boolean", "integer", "numeric", "date", "timestamp", "time"',
        'kind = "numeric"          # a guess; or "categorical", "boolean", "integer", "date", "timestamp", "time"',
        'kind = "boolean"          # a guess; or "categorical", "integer", "numeric", "date", "timestamp", "time"',
        'kind = "date"             # a guess; or "categorical", "boolean", "integer", "numeric", "timestamp", "time"',
    ]
    assert '# column = "person_id"' in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("age", "column 'age': low is missing; write the smallest possible integer"),
        ("sex", "column 'sex' declares no values; list every value"),
        ("income", "column 'income': low is missing; write the lower bound"),
        ("birth_date", "column 'birth_date': start is missing; write the first possible day"),
    ],
)
def test_a_draft_is_refused_before_it_is_filled_in(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_toml(draft_schema(csv(tmp_path, f"{name}\n")))


def test_declared_types_of_parquet_decide_and_its_statistics_are_not_used(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        flag=pa.array([True, False]),
        size=pa.array([7261, 7262]),
        share=pa.array([7261.5, 0.0]),
        price=pa.array([Decimal("7261.25"), None]),
        day=pa.array([dt.date(1987, 6, 5), None]),
        stamp=pa.array([dt.datetime(1987, 6, 5), None]),
        word=pa.array([CANARY, "b"]),
        code=pa.array([CANARY, "b"]).dictionary_encode(),
        tags=pa.array([[CANARY], []]),
    )
    text = draft_schema(path)
    assert not any(private in text for private in (CANARY, "726", "1987"))
    kinds = [line.split('"')[1] for line in text.splitlines() if line.startswith("kind")]
    assert kinds == ["boolean", "integer", "numeric", "numeric", "date", "timestamp", "categorical", "categorical"]
    assert "# [columns.tags]\n# left out: hush cannot count its type" in text


def test_a_draft_of_boolean_columns_is_complete(tmp_path: Path) -> None:
    path = parquet(tmp_path, a=pa.array([True]), b=pa.array([None], type=pa.bool_()))
    assert read_toml(draft_schema(path)) == Schema([Boolean(name="a"), Boolean(name="b")])


def test_names_that_look_like_values_come_with_a_warning(tmp_path: Path) -> None:
    assert "# CHECK: some names are numbers" in draft_schema(csv(tmp_path, "39,Male\n40,Female\n"))
    assert "# CHECK" not in draft_schema(csv(tmp_path, "age,sex\n"))


@pytest.mark.parametrize("content", [b"a;b,c\n", b"a\tb,c\n", b"a|b,c\n"])
def test_the_delimiter_is_found_in_the_header(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.tsv"
    path.write_bytes(b'"x;x,x|x\tx"' + content[1:2] + content)
    assert draft_schema(path).count("[columns.") == 3


def test_odd_names_survive(tmp_path: Path) -> None:
    path = csv(tmp_path, '\ufeffAge,age,"a ""b"" c",été 😀,"x.y"\ntrue,true,true,true,true\n')
    names = ["Age", "age", 'a "b" c', "été 😀", "x.y"]
    assert list(learnt(path)) == names
    assert draft_schema(path).count("\n[columns.") == 5


def people(rows: int = 2500) -> str:
    rng = random.Random(7)
    lines = ["person_id,age,sex,income,smoker,admitted,zip,notes,empty,wide,token,year\n"]
    for k in range(rows):
        cells = [
            k,
            rng.choice(["?", *range(17, 91)]),
            rng.choice(["Male", "Female", ""]),
            f"{rng.uniform(1, 99999):.2f}",
            rng.choice(["True", "false"]),
            dt.date(2020, 1, 1) + dt.timedelta(days=rng.randrange(1800)),
            f"0{rng.randrange(1000, 1010)}",
            f"note {k}",
            "",
            rng.randrange(10**6),
            rng.choice(["NA", "1.5", "2", "inf"]),
            f"{rng.randrange(1990, 2020)}.0",
        ]
        lines.append(",".join(map(str, cells)) + "\n")
    return "".join(lines)


def test_rows_give_values_bounds_bins_and_missing(tmp_path: Path) -> None:
    path = csv(tmp_path, people())
    text = draft_schema(path, from_data=True)
    assert text.startswith("# ====")
    assert "NOT PRIVATE: this schema was derived from the data." in text.splitlines()[1]
    assert "# [columns.person_id]\n# left out: it looks like an id" in text
    assert "# [columns.notes]\n# left out: it has more than 1000 different texts" in text
    assert "# [columns.empty]\n# left out: no cell holds a value" in text
    assert learnt(path) == {
        "age": Integer(name="age", low=17, high=90, missing=True, missing_values=("?",)),
        "sex": Categorical(name="sex", values=("Female", "Male"), missing=True),
        "income": Numeric.equal_width(name="income", low=0, high=100000, bins=20, step=0.01),
        "smoker": Boolean(name="smoker"),
        "admitted": Date(name="admitted", start=dt.date(2020, 1, 1), end=dt.date(2024, 12, 31), granularity="month"),
        "zip": Categorical(name="zip", values=tuple(f"0{k}" for k in range(1000, 1010))),
        "wide": Integer.equal_width(name="wide", low=0, high=999999, bins=20),
        "token": Numeric.equal_width(
            name="token",
            low=1.5,
            high=2,
            bins=5,
            step=0.1,
            points=(1.5, 2),
            outside="clamp",
            missing=True,
            missing_values=("NA",),
        ),
        "year": Integer(name="year", low=1990, high=2019),
    }


def test_rows_of_parquet_follow_the_same_rules(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        flag=pa.array([True, False, None]),
        size=pa.array([3, 5, None]),
        share=pa.array([0.25, float("nan"), 0.75]),
        whole=pa.array([1.0, None, 4.0]),
        short=pa.array([0.1, 0.1, 0.7], type=pa.float32()),
        price=pa.array([Decimal("1.25"), Decimal("2.50"), None]),
        day=pa.array([dt.date(2020, 1, 5), dt.date(2020, 2, 1), None]),
        stamp=pa.array([dt.datetime(1950, 6, 5, 23), dt.datetime(2020, 1, 1), None]),
        word=pa.array(["b", " a ", "NA"]),
        nothing=pa.array([None, None, None], type=pa.string()),
        tags=pa.array([["x"], [], None]),
    )
    stamp = Timestamp(
        name="stamp",
        start=dt.date(1950, 1, 1),
        end=dt.date(2020, 12, 31),
        parts=("date", "weekday", "hour"),
        granularity="quarter",
        missing=True,
    )
    assert learnt(path) == {
        "flag": Boolean(name="flag", missing=True),
        "size": Integer(name="size", low=3, high=5, missing=True),
        "share": Numeric.equal_width(name="share", low=0.24, high=0.76, bins=26, step=0.01, missing=True),
        "whole": Integer(name="whole", low=1, high=4, missing=True),
        "short": Numeric.equal_width(name="short", low=0.1, high=0.7, bins=30),
        "price": Numeric.equal_width(name="price", low=1.25, high=2.5, bins=25, step=0.01, missing=True),
        "day": Date(name="day", start=dt.date(2020, 1, 5), end=dt.date(2020, 2, 1), missing=True),
        **{column.name: column for column in stamp.columns},
        "word": Categorical(name="word", values=("NA", "a", "b")),  # in a column of texts NA may be a country
    }


@pytest.mark.parametrize(
    ("days", "granularity"),
    [(1, "day"), (100, "day"), (101, "week"), (731, "month"), (9126, "quarter"), (30000, "year")],
)
def test_date_levels_are_a_handful_to_hundreds(tmp_path: Path, days: int, granularity: str) -> None:
    last = dt.date(1920, 3, 1) + dt.timedelta(days=days - 1)
    column = learnt(csv(tmp_path, f"d\n1920-03-01\n{last}\n"))["d"]
    assert column.granularity == granularity
    assert column.levels <= 400


def test_times_are_drafted_by_parts_that_hold_every_row(tmp_path: Path) -> None:
    rows = "2024-01-31 23:30:00+00:00,08:30\n2024-01-05 07:00:00+02:00,23:59:59\n,?\n"
    path = csv(tmp_path, f"pickup,departure\n{rows}")
    schema = read_toml(draft_schema(path, from_data=True, public=True))
    assert schema == Schema(
        [
            Timestamp(
                name="pickup",
                start=dt.date(2024, 1, 5),
                end=dt.date(2024, 1, 31),
                parts=("date", "hour"),
                missing=True,
            ),
            TimeOfDay(name="departure", missing=True, missing_values=("?",)),
        ]
    )
    assert dry_run(path, schema).fits
    marked = draft_schema(path, from_data=True)
    assert read_toml(marked).from_private_data == ("pickup.date", "pickup.hour", "departure.hour")


def test_the_zone_of_a_text_decides_its_drafted_day(tmp_path: Path) -> None:
    path = csv(tmp_path, "pickup\n2024-01-01 00:30:00+02:00\n2024-01-05 12:00:00+02:00\n")
    schema = read_toml(draft_schema(path, from_data=True, public=True))
    assert schema["pickup.date"].start == dt.date(2023, 12, 31)
    assert dry_run(path, schema).fits


@pytest.mark.parametrize(("name", "kind"), [("pickup_datetime", "timestamp"), ("dep_time", "time")])
def test_names_suggest_times(tmp_path: Path, name: str, kind: str) -> None:
    text = draft_schema(csv(tmp_path, f"{name}\n"))
    assert f'kind = "{kind}"' in text


@pytest.mark.parametrize("cells", [["24:00", "08:00"], ["08:30", "soon"], ["8", "08:30"]])
def test_texts_beside_times_are_texts(tmp_path: Path, cells: list[str]) -> None:
    assert learnt(csv(tmp_path, "\n".join(["c", *cells, ""])))["c"].kind == "categorical"


@pytest.mark.parametrize(
    "cells", [["1", "x"], ["2020-01-01", "2020-02-31"], ["1e999", "a"], ["true", "maybe"], ["007", "8"], ["1_000", "2"]]
)
def test_mixed_cells_are_texts(tmp_path: Path, cells: list[str]) -> None:
    column = learnt(csv(tmp_path, "\n".join(["c", *cells, ""])))["c"]
    assert column == Categorical(name="c", values=tuple(sorted(cells)))


def test_float32_bounds_hold_the_doubles_they_become(tmp_path: Path) -> None:
    column = learnt(parquet(tmp_path, x=pa.array([0.0, 0.1], type=pa.float32())))["x"]
    assert column.edges[-1] >= pa.scalar(0.1, pa.float32()).as_py() > 0.1


def test_blank_texts_of_any_kind_are_missing(tmp_path: Path) -> None:
    column = learnt(csv(tmp_path, 'c\na\n" \t "\n\u00a0b\u3000\n'))["c"]
    assert column == Categorical(name="c", values=("a", "b"), missing=True)


def test_a_thousand_values_are_listed_and_more_are_not(tmp_path: Path) -> None:
    listed = csv(tmp_path, "c\n" + "".join(f"v{k % 1000}\n" for k in range(2000)), "listed.csv")
    assert learnt(listed)["c"].levels == 1000
    more = csv(tmp_path, "c\n" + "".join(f"v{k}\n" for k in range(1001)), "more.csv")
    assert "# [columns.c]\n# left out: it has more than 1000 different texts" in draft_schema(more, from_data=True)
    long = csv(tmp_path, f"c\n{'x' * 201}\n", "long.csv")
    assert "or some of more than 200 characters" in draft_schema(long, from_data=True)


def test_a_file_larger_than_memory_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, c=pa.array([f"{k:040}x" for k in range(300_000)]))
    monkeypatch.setattr(drafting, "DRAFT_MEMORY", 32 * 10**6)  # the texts alone take half of it
    monkeypatch.setattr(duckdb, "SMALLEST_MEMORY", 0)
    assert "left out: it has more than 1000 different texts" in draft_schema(path, from_data=True)


def test_values_that_no_column_can_hold_are_left_out(tmp_path: Path) -> None:
    path = csv(tmp_path, 'c,d\n(missing),"a"\n,"b"\n')
    text = draft_schema(path, from_data=True)
    assert "# [columns.c]\n# left out: no kind of column holds its values" in text
    assert list(learnt(path)) == ["d"]


def test_more_columns_than_one_pass_asks_about(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(95)]
    path = csv(tmp_path, f"{','.join(names)}\n{','.join(str(k) for k in range(95))}\n")
    assert [column.low for column in learnt(path).values()] == list(range(95))


def test_compressed_files_and_names_with_wildcards(tmp_path: Path) -> None:
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"a\n1\n3\n"))
    assert learnt(tmp_path / "data.csv.gz")["a"] == Integer(name="a", low=1, high=3)
    csv(tmp_path, "b\n9\n", "d1.csv")
    path = csv(tmp_path, "a\n1\n3\n", "it's [d]?*1.csv")
    assert learnt(path)["a"] == Integer(name="a", low=1, high=3)


BAD_HEADERS = {
    "empty": (b"", "is empty; a table without rows still needs its header line"),
    "a blank line": (b"\nx\n", "there are no columns"),
    "an empty name": (b"a,,b\n", "column 2 has no name; give every column a name"),
    "a blank name": (b'a," ",b\n', "column 2 has no name"),
    "a name given twice": (b"canary-7261,b,canary-7261\n", "columns 1 and 3 have the same name; rename one"),
    "not UTF-8": (b"caf\xe9,b\n", "is not UTF-8 text; convert it, for example with iconv"),
    "UTF-16": ("a,b\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
    "an open quote": (b'"a,b\n1,2\n', "has a line break in the name of a column; rename it"),
    "a line break": (b'"a\nb",c\n1,2\n', "has a line break in the name of a column; rename it"),
    "no line end": (b"x" * (2**20 + 2), "the first line of the file .* has more than 1048576 bytes"),
}


@pytest.mark.parametrize("case", BAD_HEADERS)
@pytest.mark.parametrize("from_data", [False, True])
def test_headers_that_cannot_be_used(tmp_path: Path, case: str, from_data: bool) -> None:
    content, message = BAD_HEADERS[case]
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        draft_schema(path, from_data=from_data)
    assert CANARY not in str(caught.value)


def test_parquet_files_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1 canary-7261")
    with pytest.raises(DataError, match="cannot be read as Parquet; check that it is complete"):
        draft_schema(path)
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(DataError, match="columns 1 and 2 have the same name"):
        draft_schema(path)
    pq.write_table(pa.Table.from_arrays([pa.array([1])], names=[""]), path)
    with pytest.raises(DataError, match="column 1 has no name"):
        draft_schema(path)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "data.xlsx").touch()
    (tmp_path / "data.ods").touch()
    for name, words in {
        "none.csv": "does not exist; check the path",
        "none.parquet": "does not exist; check the path",
        "folder.csv": "holds no Parquet file; give a .csv",
        "data.xlsx": "cannot be read as an Excel file",
        "data.ods": "cannot tell the format from the ending '.ods'; give a .csv, .tsv or .txt file",
    }.items():
        with pytest.raises(DataError, match=words):
            draft_schema(tmp_path / name)
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"a\n1\n3\n" * 9999)[:-20])
    with pytest.raises(DataError):
        draft_schema(tmp_path / "data.csv.gz", from_data=True)
    (tmp_path / "data.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        draft_schema(tmp_path / "data.csv.gz")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b"canary-7261,1\ncanary-7261,2,3\n", "some rows have more or fewer fields than the header"),
        (b"canary-7261,1\ncanary-7261\n", "some rows have more or fewer fields than the header"),
        (b"canary-7261,\xff\xfe\n", "not UTF-8 text; convert it"),
        (b'canary-7261,"open\n', "a quoted field is not closed"),
    ],
)
def test_errors_about_rows_hold_no_cell(tmp_path: Path, rows: bytes, words: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b\n" + rows)
    with pytest.raises(DataError, match=words) as caught:
        draft_schema(path, from_data=True)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_no_rows_are_nothing_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no rows to draft from; draft from the header alone"):
        draft_schema(csv(tmp_path, "a,b\n"), from_data=True)


def test_texts_of_which_nearly_every_row_has_its_own_are_left_out(tmp_path: Path) -> None:
    names = [f"Name {k}" for k in range(60)]
    path = csv(tmp_path, "name,city,few\n" + "".join(f"{n},city {k % 20},{k % 20}x\n" for k, n in enumerate(names)))
    text = draft_schema(path, from_data=True)
    assert "# [columns.name]\n# left out: nearly every row has a different text, such as a name or a ticket" in text
    assert "Name 7" not in text
    assert list(learnt(path)) == ["city", "few"]


def test_numbers_that_many_rows_hold_become_points(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = [f"{0 if rng.random() < 0.9 else rng.uniform(1, 99999):.0f},{rng.uniform(0, 1):.4f}\n" for _ in range(2000)]
    columns = learnt(csv(tmp_path, "gain,share\n" + "".join(rows)))
    assert columns["gain"] == Integer.equal_width(name="gain", low=0, high=99999, bins=20, points=(0,))
    assert columns["share"] == Numeric.equal_width(name="share", low=0, high=1, bins=20, step=0.0001)


def test_decimal_commas_and_signs_are_read_into_the_draft(tmp_path: Path) -> None:
    rows = [
        "1,5;1.234,50 €;12 %;1,234;1'500;007;15 %",
        "2,75;7 €;3,5 %;56,789;2'000;123;8 %",
        "NA;;8 %;5;1'000;9;12 %",
    ]
    columns = learnt(csv(tmp_path, "comma;euro;percent;english;swiss;code;tip\n" + "\n".join(rows) + "\n"))
    spellings = {name: getattr(column, "spelling", None) for name, column in columns.items()}
    assert spellings == {
        "comma": NumberSpelling(decimal=","),
        "euro": NumberSpelling(decimal=",", thousands=".", strip=("€",)),
        "percent": NumberSpelling(decimal=",", strip=("%",)),
        "english": NumberSpelling(thousands=","),
        "swiss": NumberSpelling(thousands="'"),
        "code": None,  # zeros in front are no number's
        "tip": NumberSpelling(strip=("%",)),  # a mark that no cell has is not guessed
    }
    assert columns["comma"].missing_values == ("NA",)
    assert (columns["euro"].low, columns["euro"].high) == (0, 1250)
    assert (columns["english"].low, columns["english"].high) == (0, 57999)
    assert all(column.from_private_data for column in columns.values())


def test_a_draft_from_rows_holds_the_rows(tmp_path: Path) -> None:
    """What is drafted reads the file it came from: no value is refused."""
    path = csv(tmp_path, people(400))
    assert dry_run(path, read_toml(draft_schema(path, from_data=True))).fits


@pytest.mark.parametrize("from_data", [False, True])
def test_a_draft_says_how_to_choose_bins_and_epsilon(tmp_path: Path, from_data: bool) -> None:
    text = draft_schema(csv(tmp_path, "a\n1\n"), from_data=from_data)
    assert "# How many bins?" in text
    assert "# Which epsilon?" in text
    assert "hush plan SCHEMA --workload" in text


def test_wide_integers_get_bins_and_heavy_tails_narrow_ones(tmp_path: Path) -> None:
    rng = random.Random(6)
    rows = [
        f"{rng.randrange(676)},{round(rng.expovariate(1 / 40)) - 20},{rng.gauss(18, 4):.1f},{rng.random()!r}\n"
        for _ in range(1500)
    ]
    columns = learnt(csv(tmp_path, "code,delay,heat,share\n" + "".join(rows)))
    assert columns["code"].binned
    assert 10 <= columns["code"].levels <= 32
    delay = columns["delay"]
    assert isinstance(delay, Integer)
    widths = [last - first + 1 for first, last in map(delay.ends, range(delay.levels))]
    assert min(widths) * 10 <= max(widths)
    assert columns["heat"].step == 0.1
    assert columns["share"].step is None
