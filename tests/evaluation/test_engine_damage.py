"""Exports that are damaged where no digest tells, loaded by the engine as it is: each is an answer, none hangs."""

import json

import pytest

from evaluation.core.asking import Stored
from evaluation.ml.server import Models
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file

pytestmark = pytest.mark.ml


def rewrite(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def weights(export):
    return next(export.glob("*.safetensors"))


DAMAGE = {
    "weights cut short": lambda e: weights(e).write_bytes(weights(e).read_bytes()[:-1000]),
    "weights that are noise": lambda e: weights(e).write_bytes(b"\xff" * 5000),
    "weights of no bytes": lambda e: weights(e).write_bytes(b""),
    "no weights": lambda e: weights(e).unlink(),
    "a config of no model": lambda e: (e / "config.json").write_text("{}"),
    "a config that is a list": lambda e: (e / "config.json").write_text("[]"),
    "a size that does not fit": lambda e: rewrite(e / "config.json", lambda c: c.update(hidden_size=12)),
    "a size that is a text": lambda e: rewrite(
        e / "config.json", lambda c: c.update(num_hidden_layers="two")
    ),
    "a tokenizer that is noise": lambda e: (e / "tokenizer.json").write_text('{"model": 1}'),
    "no tools": lambda e: rewrite(e / "trace.json", lambda t: t.pop("tools")),
    "tools that are numbers": lambda e: rewrite(e / "trace.json", lambda t: t.update(tools=[1, 2])),
    "a trace.json that is a list": lambda e: (e / "trace.json").write_text("[]"),
}


@pytest.mark.parametrize("kind", ["language model", "pocket"])
@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_export_is_refused_with_a_reason(tmp_path, harm, kind):
    from evaluation.ml.engine import open_engine
    from tests.evaluation.tiny_export import write_export, write_pocket

    export = tmp_path / "export"
    write_pocket(export) if kind == "pocket" else write_export(export, "a")
    harm(export)
    names = [path for path in export.rglob("*") if path.is_file() and path.name != "manifest.json"]
    files = {str(path.relative_to(export)): {"sha256": sha256_file(path)} for path in names}
    (export / "manifest.json").write_text(json.dumps({"files": files}))
    slot = Models(lambda _: open_engine(export, 1))._slot(Stored("models/1", "0" * 64))
    assert slot.ready.wait(60)
    assert isinstance(slot.error, TraceError) and str(slot.error)
