"""CoarsenConfig from arguments and configuration files; names of stores and hierarchies."""

from pathlib import Path

import pytest

from tgp.build.config import (
    CoarsenConfig,
    from_options,
    hierarchy_name,
    load_config,
    store_name,
)
from tgp.build.settings import parse_shard, parse_size
from tgp.engine import parse_schedule
from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.store.format.constants import check_hierarchy_name


@pytest.mark.parametrize(
    ("dataset", "path"),
    [
        ("molecules", "pooled/molecules"),
        ("mutag", "pooled/MUTAG"),
        ("CitationFull/cora", "pooled/CitationFull-Cora"),
        ("planetoid/cora", "pooled/Cora"),
        ("road/NY.gr.xz", "pooled/NY"),
        ("ENZYMES:use_node_attr=true", "pooled/ENZYMES-use_node_attr=true"),
        ("some/where/graphs.npz", "pooled/graphs"),
        ("my.module:make", "pooled/my.module-make"),
        ("molecules:num_graphs=10:seed=3", "pooled/molecules-num_graphs=10-seed=3"),
    ],
)
def test_default_directory(dataset, path):
    assert CoarsenConfig(dataset).path == Path(path)
    assert CoarsenConfig(dataset, out=Path("x")).path == Path("x")


def test_store_name_is_never_empty():
    assert store_name("/") == "dataset"


@pytest.mark.parametrize("text", ["graclus*2", "graclus:order=degree,nopool", "random:ratio=0.25*3,graclus"])
def test_hierarchy_names_are_valid_and_different(text):
    name = hierarchy_name(parse_schedule(text))
    assert check_hierarchy_name(name) == name
    assert name != hierarchy_name(parse_schedule("nopool"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MB", 64_000_000),
        ("64MiB", 64 << 20),
        ("1.5k", 1500),
        ("10B", 10),
        ("64000000", 64_000_000),
        ("2 GB", 2 * 10**9),
        ("1gib", 1 << 30),
    ],
)
def test_parse_size(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1XB", "0B", "10i", "5", "999999"])
def test_parse_size_reports_bad_text(text):
    with pytest.raises(InputError):
        parse_size(text)


def test_a_size_without_a_unit_gets_a_hint():
    with pytest.raises(InputError, match="5MB") as caught:
        parse_size("5")
    assert "5B are bytes" in caught.value.hint


def test_parse_shard():
    assert parse_shard("3/10") == (3, 10)
    for text in ("10/10", "3", "a/b", "-1/3", "1/0"):
        with pytest.raises(InputError, match="i/N"):
            parse_shard(text)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"poolers": ()}, InputError),
        ({"names": ("a", "b")}, InputError),
        ({"profile": "tiny"}, UnknownNameError),
        ({"workers": 0}, ParameterError),
        ({"seed": -1}, ParameterError),
        ({"limit": 0}, ParameterError),
        ({"until": "ten"}, ParameterError),
        ({"threads": 1.5}, ParameterError),
        ({"scheduler": "tcp://x", "workers": 2}, InputError),
        ({"force": True, "shard": (0, 2)}, InputError),
    ],
)
def test_bad_values_are_reported(values, error):
    with pytest.raises(error):
        CoarsenConfig(**values)


def test_arguments_override_the_file_and_the_file_overrides_defaults(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(
        'pooler = ["graclus*3", "nopool"]\ndataset = "er"\nseed = 5\nshard-size = "1MB"\nundirected = true\nout = "o"\nshard = "1/4"\nonly-levels = [1, 3]\n'
    )
    config = load_config(file, {"seed": 9, "dataset": None})
    assert config.poolers == ("graclus*3", "nopool")
    assert (config.dataset, config.seed, config.shard_size, config.out) == ("er", 9, 10**6, Path("o"))
    assert config.undirected and config.shard == (1, 4) and config.workers is None
    assert config.only_levels == (1, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sead = 1", "'seed'"),
        ("seed = 'x'", "'seed' must be int"),
        ("force = 1", "bool"),
        ("= 3", "not TOML"),
        ("pooler = [1]", "poolers"),
        ("shard = 3", "shard"),
        ("only_levels = 'a'", "levels"),
    ],
)
def test_bad_files_are_reported(tmp_path, text, message):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises((InputError, UnknownNameError), match=message):
        load_config(file, {})
    with pytest.raises(InputError, match="no configuration file"):
        load_config(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    "text", ['dataset = "os:getcwd"', 'dataset = "a.b:c:n=3"', 'scheduler = "tcp://host:1"']
)
def test_a_file_cannot_run_code(tmp_path, text):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(InputError, match="would run code") as caught:
        load_config(file, {"seed": 3})
    key, value = text.split(" = ")
    assert f"--{key}" in caught.value.hint
    assert getattr(load_config(file, {key: value.strip('"')}), key) == value.strip('"')


def test_a_file_may_name_data_with_a_colon(tmp_path):
    (tmp_path / "a:b.npz").write_bytes(b"")
    file = tmp_path / "c.toml"
    for name in ("er:num_graphs=4", "MUTAG:use_node_attr=true", str(tmp_path / "a:b.npz")):
        file.write_text(f'dataset = "{name}"')
        assert load_config(file, {}).dataset == name


def test_max_input(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('max-input = "2GB"')
    assert load_config(file, {}).max_input == 2 * 10**9
    assert load_config(file, from_options({"max_input": "64GB"})).max_input == 64 * 10**9
    with pytest.raises(InputError, match="size such as") as caught:
        load_config(None, from_options({"max_input": "much"}))
    assert caught.value.field == "max_input"


@pytest.mark.parametrize("data", [b"a = \xff", b"a = " + b"[" * 5000, b"# " + b"x" * (1 << 21)])
def test_damaged_files_are_reported(tmp_path, data):
    file = tmp_path / "c.toml"
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"c\.toml"):
        load_config(file, {})
    with pytest.raises(InputError, match="a folder"):
        load_config(tmp_path, {})


def test_short_forms_become_the_declared_types(tmp_path):
    config = CoarsenConfig(
        "MUTAG",
        root="data",
        out=str(tmp_path),
        poolers="graclus*2",
        names="mine",
        only_levels="1,2",
        shard_size="2MB",
        exclude="x",
    )
    assert (config.root, config.path) == (Path("data"), tmp_path)
    assert (config.poolers, config.names, config.exclude) == (("graclus*2",), ("mine",), ("x",))
    assert (config.only_levels, config.shard_size) == ((1, 2), 2_000_000)
    assert CoarsenConfig(only_levels=2).only_levels == (2,)
    assert CoarsenConfig(poolers=["ndp", "sep*2"]).poolers == ("ndp", "sep*2")
    assert CoarsenConfig(poolers=parse_schedule("ndp,eigen:k=4")).poolers == ("ndp,eigen:k=4",)


def test_a_mapping_names_the_hierarchies():
    config = CoarsenConfig(poolers={"a": "graclus", "b": "ndp,eigen:k=8"})
    assert (config.names, config.poolers) == (("a", "b"), ("graclus", "ndp,eigen:k=8"))
    with pytest.raises(InputError, match="named twice"):
        CoarsenConfig(poolers={"a": "graclus"}, names="b")


def test_a_path_object_is_never_a_name():
    assert Path(CoarsenConfig(Path("MUTAG")).dataset) == Path("MUTAG")
    assert CoarsenConfig(Path("MUTAG")).dataset != "MUTAG"
    assert CoarsenConfig(Path("a/b.npz")).dataset == str(Path("a/b.npz"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"out": 3}, "out must be a directory, got 3"),
        ({"out": "s3://bucket/x"}, "got the URL"),
        ({"poolers": 3}, "poolers must be text or a list"),
        ({"poolers": [["graclus", "graclus"]]}, "a schedule has the wrong type"),
        ({"exclude": [1]}, "exclude must hold text"),
        ({"shard_size": "much"}, "size such as"),
    ],
)
def test_wrong_types_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        CoarsenConfig(**values)


def test_objects_need_a_directory():
    with pytest.raises(InputError, match="expected out="):
        _ = CoarsenConfig(dataset=[object()]).path
