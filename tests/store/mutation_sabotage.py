"""Remove one check of the store at a time. The mutation catalogue must then find something.

Each entry of :data:`SABOTAGE` names a function that disables a check inside a child process, the mutations that the check
stops, and the consumers that are affected.
"""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Sabotage:
    """One removed check.

    Args:
        remove: Places to patch as ``module:attribute`` with their replacement.
        mutations: Names of mutations of which at least one must give a finding without the check.
        consumers: Consumers to run.
    """

    remove: dict
    mutations: tuple
    consumers: tuple

    def __call__(self):
        """Disable the check in this process."""
        for place, replacement in self.remove.items():
            module, _, name = place.partition(":")
            *owners, last = name.split(".")
            target = importlib.import_module(module)
            for owner in owners:
                target = getattr(target, owner)
            getattr(target, last)  # fails if the check was renamed
            setattr(target, last, replacement)


def _shape_only(self, path, shape, types, dtype):
    """Check an array as before the schema check: its shape, but not its type."""
    info = self.info(path)
    if info.shape != shape:
        raise self.damaged(path, "has a wrong shape")
    self._declared.add(path)


def _nothing(*args, **kwargs):
    return None


def _same(value, *args, **kwargs):
    return str(value)


def _metric_path(metric):
    from tgp.store.read.contents import metric_path

    return metric_path(metric)


def _declare_failures(self):
    self._declared |= {path for path in self.arrays if path.startswith("/failures")}


def _declare_level_field(self, number, info):
    for group in ("fields", "ptr"):
        path = f"/levels/{number}/{group}/{info.name.replace('/', '%2F').replace('.', '%2E')}"
        if path in self.arrays:
            self._declared.add(path)
            self.present.add(path)


PARTS, CONTENTS = "tgp.store.read.parts", "tgp.store.read.contents"
SABOTAGE = {
    "stored types": Sabotage(
        {f"{PARTS}:OpenPart.check_array": _shape_only},
        ("named/S1/complex128-as-f4", "named/S1/bool-as-u2"),
        ("verify", "read_single", "gather"),
    ),
    "flags": Sabotage(
        {"tgp.store.read.batch_layout:value_check": _nothing, "tgp.store.read.single:value_check": _nothing},
        ("named/S1/bool-bytes-of-255",),
        ("read_single", "gather"),
    ),
    "supernodes": Sabotage(
        {f"{CONTENTS}:HierarchyPart._check_supernodes": _nothing},
        ("named/S3/supernodes-one-more-than-nodes", "named/S3/supernodes-in-one-shard-2^34"),
        ("read_single", "gather", "inspect"),
    ),
    "rows without bytes": Sabotage(
        {f"{PARTS}:OpenPart.check_rows": _nothing},
        ("named/S3/graph-level-fields-only-2^34",),
        ("loader", "items"),
    ),
    "fields": Sabotage(
        {"tgp.store.format.schema:FieldInfo.problem": _nothing},
        ("named/S7/edge_index-tail-empty", "field/edge_index/form=str"),
        ("read_single", "gather", "items", "inspect_graph"),
    ),
    "fields of levels": Sabotage(
        {
            "tgp.store.format.schema:FieldInfo.level_problem": _nothing,
            "tgp.store.format.type_names:_plain_problem": _nothing,  # checks the same names again
        },
        (
            "named/level-field/name-so",
            "named/level-field/manifest-axis--1",
            "named/level-field/name-pooled_data",
        ),
        ("read_single", "gather", "items", "loader"),
    ),
    "arrays of fields of levels": Sabotage(
        {f"{CONTENTS}:HierarchyPart._check_field": _declare_level_field},
        ("named/level-field/pos-rows-1", "named/level-field/train_mask-as-u8", "named/level-field/pos-as-u4"),
        ("read_single", "gather"),
    ),
    "finite numbers": Sabotage(
        {"tgp.store.format.strict_json:_parse_float": float},
        ("manifest/cli/num_graphs/1e400",),
        ("read_single", "verify", "inspect"),
    ),
    "metrics": Sabotage(
        {
            f"{CONTENTS}:HierarchyPart._check_metric": lambda self, metric: self._declared.add(
                _metric_path(metric)
            )
        },
        ("attribute/cli/h/metrics/0/cut@dtype=O", "named/S7/metric-cut-tensor"),
        ("read_single", "inspect_graph"),
    ),
    "failures": Sabotage(
        {f"{CONTENTS}:HierarchyPart._check_failures": _declare_failures},
        ("named/S7/failures-scalar-reason",),
        ("read_single",),
    ),
    "chunks": Sabotage(
        {f"{PARTS}:decode_array": lambda dataset: dataset[()]},
        ("named/S5/chunk-that-decodes-to-less",),
        ("gather",),
    ),
    "contraction": Sabotage(
        {"tgp.store.verify:first_wrong_contraction": _nothing},
        ("named/S8/one-unit-without-level-weights",),
        ("verify",),
    ),
    "offsets": Sabotage(
        {f"{PARTS}:check_ptr": _nothing},
        ("array/cli/h/levels/0/edge_ptr/decreasing", "array/cli/graphs/node_ptr/reversed"),
        ("verify", "read_single", "gather", "items"),
    ),
    "json": Sabotage(
        {"tgp.store.read.value_checks:_first_invalid_json": _nothing},
        ("named/S7/json-nan", "named/S7/json-duplicate-key"),
        ("gather", "items"),
    ),
    "text": Sabotage(
        {
            "tgp.text:inert_text": _same,
            "tgp_cli._output:inert_text": _same,
            "tgp.errors:inert_text": _same,
        },
        ("named/name/method-escapes", "named/S4/dataset-name"),
        ("inspect", "inspect_csv", "report"),
    ),
}
