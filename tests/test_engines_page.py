"""The page about engines, run as it is written against a real server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from hush.cli.main import main

PAGE = Path(__file__).parent.parent / "docs" / "engines.md"
ADDRESS = "postgresql://analyst@warehouse/clinic"


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, flags=re.M | re.S)


def test_a_warehouse_from_connection_to_release(postgres, tmp_path, monkeypatch, capsys) -> None:
    text = PAGE.read_text(encoding="utf-8")
    text = text[text.index("## A warehouse") :].partition("\n## ")[0].replace(ADDRESS, postgres.address())
    monkeypatch.chdir(tmp_path)
    with postgres.connect() as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 900 AS patient, (ARRAY['north', 'south', 'west'])[1 + i % 3] AS ward, "
            "i % 110 AS age FROM generate_series(1, 4000) AS i"
        )
        try:
            (schema,) = blocks(text, "toml")
            Path("visits.toml").write_text(schema)
            commands = [line for block in blocks(text, "sh") for line in block.splitlines()]
            assert len(commands) == 4
            assert sum(postgres.address() in line for line in commands) == 3
            for line in commands:
                done = CliRunner().invoke(main, shlex.split(line)[1:])
                assert done.exit_code == 0, done.output
            assert "north" in done.output
            (program,) = blocks(text, "python")
            exec(program, {})
            assert "south" in capsys.readouterr().out
        finally:
            connection.execute("DROP TABLE visits")


@pytest.mark.slow
def test_a_cluster_from_session_to_release(spark, tmp_path, monkeypatch, capsys) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (schema,) = blocks(text, "toml")
    text = text[text.index("## A cluster") :].partition("\n## ")[0]
    text = text.replace("/data/visits", f"{tmp_path}/visits").replace("lake.visits", "global_temp.visits")
    monkeypatch.chdir(tmp_path)
    Path("visits.toml").write_text(schema)
    visits = spark.sql(
        "SELECT CAST(id % 900 AS INT) AS patient, get(array('north', 'south', 'west'), CAST(id % 3 AS INT)) AS ward, "
        "CAST(id % 110 AS INT) AS age FROM range(4000)"
    )
    visits.createOrReplaceTempView("visits")
    visits.createOrReplaceGlobalTempView("visits")
    visits.write.parquet(f"{tmp_path}/visits")
    (program,) = blocks(text, "python")
    exec(program, {"spark": spark})
    assert "south" in capsys.readouterr().out
    commands = [line for block in blocks(text, "sh") for line in block.splitlines()]
    assert len(commands) == 3
    for line in commands:
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output


def test_the_control_a_command_that_is_wrong_fails() -> None:
    assert CliRunner().invoke(main, ["release", "postgresql://127.0.0.1:1/x"]).exit_code != 0
    assert blocks("```sh\nx\n```\n", "sh") == ["x\n"]
    with pytest.raises(IndexError):
        blocks("none", "sh")[0]
