"""The artefact store: whole folders, verified on every read, the same through a local path and a remote protocol."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

from trace_site.lib.errors import TraceError
from trace_site.lib.store import Store


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    url = (tmp_path / "store").as_uri() if request.param == "file" else "memory://bucket"
    yield Store(url, cache=tmp_path / "cache")
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "made"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("one")
    (root / "deep" / "b.bin").write_bytes(bytes(range(256)))
    return root


def test_folder_comes_back_byte_for_byte(store, folder):
    digest = store.put_dir(folder, "runs/1")
    back = store.get_dir("runs/1", digest)
    assert (back / "a.txt").read_text() == "one"
    assert (back / "deep" / "b.bin").read_bytes() == bytes(range(256))


def test_same_content_has_the_same_digest_under_any_key(store, folder):
    assert store.put_dir(folder, "x/1") == store.put_dir(folder, "x/2")


def test_putting_the_same_content_again_does_not_disturb_its_readers(folder, tmp_path):
    store = Store((tmp_path / "store").as_uri(), cache=tmp_path / "cache")
    digest = store.put_dir(folder, "x/1")
    with (store.get_dir("x/1", digest) / "a.txt").open() as reading:
        place = os.fstat(reading.fileno()).st_ino
        assert store.put_dir(folder, "x/1") == digest
        assert (tmp_path / "store/x/1/a.txt").stat().st_ino == place
    (tmp_path / "store/x/1/a.txt").write_text("broken")
    assert store.put_dir(folder, "x/1") == digest
    assert (store.get_dir("x/1", digest) / "a.txt").read_text() == "one"


def test_index_that_is_no_index_is_a_clear_error(folder, tmp_path):
    store = Store((tmp_path / "store").as_uri(), cache=tmp_path / "cache")
    digest = store.put_dir(folder, "x/1")
    (tmp_path / "store/x/1/store.json").write_text("[")
    with pytest.raises(TraceError, match="differ from their digests .store.json"):
        store.get_dir("x/1", digest)


def test_missing_folder_is_a_clear_error(store):
    with pytest.raises(TraceError, match="not in the artefact store"):
        store.get_dir("nothing/here", "0" * 64)


def test_changed_file_is_refused_in_the_store_and_fetched_again_into_the_cache(store, folder):
    digest = store.put_dir(folder, "runs/1")
    (store.get_dir("runs/1", digest) / "a.txt").write_text("two")
    if store.is_local:
        with pytest.raises(TraceError, match="differ from their digests"):
            store.get_dir("runs/1", digest)
    else:
        assert (store.get_dir("runs/1", digest) / "a.txt").read_text() == "one"


def test_byte_changed_in_the_remote_store_is_refused(store, folder):
    digest = store.put_dir(folder, "runs/1")
    store.filesystem.pipe_file(f"{store.root}/runs/1/a.txt", b"two")
    with pytest.raises(TraceError, match="differ from their digests"):
        store.get_dir("runs/1", digest)


def test_removed_folder_is_gone_with_its_copies_and_removing_it_again_does_nothing(store, folder):
    digest = store.put_dir(folder, "runs/1")
    store.put_dir(folder, "runs/2")
    store.get_dir("runs/1", digest)
    for _ in range(2):
        store.remove("runs/1")
        assert not store.has("runs/1") and store.has("runs/2")
    with pytest.raises(TraceError, match="not in the artefact store"):
        store.get_dir("runs/1", digest)


def test_half_removed_folder_is_no_folder(store, folder, monkeypatch):
    digest = store.put_dir(folder, "runs/1")
    rm = type(store.filesystem).rm

    def killed(self, path, recursive=False, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(store.filesystem), "rm", killed)
    with pytest.raises(KeyboardInterrupt):
        store.remove("runs/1")
    monkeypatch.setattr(type(store.filesystem), "rm", rm)
    with pytest.raises(TraceError, match="not in the artefact store"):
        store.get_dir("runs/1", digest)
    store.remove("runs/1")
    assert not store.has("runs/1")


def test_other_digest_than_asked_for_is_refused(store, folder):
    store.put_dir(folder, "runs/1")
    with pytest.raises(TraceError, match="differ"):
        store.get_dir("runs/1", "f" * 64)


def test_failed_put_leaves_the_old_folder(tmp_path, folder, monkeypatch):
    store = Store((tmp_path / "store").as_uri(), cache=tmp_path / "cache")
    digest = store.put_dir(folder, "runs/1")
    (folder / "a.txt").write_text("new")

    def disk_full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trace_site.lib.store.shutil.copyfile", disk_full)
    with pytest.raises(TraceError, match="No space left"):
        store.put_dir(folder, "runs/1")
    assert (store.get_dir("runs/1", digest) / "a.txt").read_text() == "one"
    assert [path.name for path in (tmp_path / "store" / "runs").iterdir()] == ["1"]


def test_one_file_is_read_and_verified_without_a_copy_of_the_folder(store, folder, tmp_path):
    digest = store.put_dir(folder, "runs/1")
    assert store.read("runs/1", digest, "a.txt") == b"one"
    assert not (tmp_path / "cache").exists()
    for key, wanted, name in (
        ("runs/2", digest, "a.txt"),
        ("runs/1", "0" * 64, "a.txt"),
        ("runs/1", digest, "none.txt"),
    ):
        with pytest.raises(TraceError, match="not in the artefact store|differ from their digests"):
            store.read(key, wanted, name)
    store.filesystem.pipe_file(f"{store.root}/runs/1/a.txt", b"two")
    with pytest.raises(TraceError, match="differ from their digests .a.txt"):
        store.read("runs/1", digest, "a.txt")


def test_an_index_that_was_tampered_with_writes_nothing_on_this_machine(folder, tmp_path):
    store = Store("memory://tampered", cache=tmp_path / "cache")
    digest = store.put_dir(folder, "runs/1")
    store.filesystem.pipe_file(f"{store.root}/runs/1/../../evil", b"evil")
    store.filesystem.pipe_file(f"{store.root}/runs/1/store.json", b'{"files": {"../../evil": {}}}')
    with pytest.raises(TraceError, match="differ from their digests .store.json"):
        store.get_dir("runs/1", digest)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_who_fetch_the_same_folder_at_once_fetch_it_once(folder, tmp_path, monkeypatch):
    store = Store("memory://at-once", cache=tmp_path / "cache")
    digest, fetched, fetch = store.put_dir(folder, "runs/1"), [], store.filesystem.get_file

    def slowly(source, *more):
        fetched.append(source)
        time.sleep(0.02)
        fetch(source, *more)

    monkeypatch.setattr(store.filesystem, "get_file", slowly)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: store.get_dir("runs/1", digest), range(4)))) == 1
    assert len(fetched) == 2, "each of its files"


def test_a_fetch_that_breaks_off_leaves_nothing_on_this_machine(folder, tmp_path, monkeypatch):
    store = Store("memory://breaks-off", cache=tmp_path / "cache")
    digest, fetch = store.put_dir(folder, "runs/1"), store.filesystem.get_file

    def breaks_off(source, target):
        if source.endswith("b.bin"):
            raise ConnectionResetError
        fetch(source, target)

    with monkeypatch.context() as away:
        away.setattr(store.filesystem, "get_file", breaks_off)
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                store.get_dir("runs/1", digest)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_dir() and digest in path.name]
    assert (store.get_dir("runs/1", digest) / "a.txt").read_text() == "one"
