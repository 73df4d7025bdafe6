"""Which code made a model is told from git's own files; nothing has to be installed for it."""

import pytest

from trace_site.lib import provenance
from trace_site.lib.provenance import code_revision, commit

HASH = "98914220126d96462dedab5ef569ccaa8b565135"


def checkout(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": f"{HASH}\n"},
        {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{HASH}\n"},
        {
            "HEAD": "ref: refs/heads/main\n",
            "packed-refs": f"# pack-refs\n{HASH} refs/heads/main\n^{'0' * 40}\n",
        },
    ],
    ids=["detached", "a branch", "packed"],
)
def test_commit_of_a_checkout(tmp_path, files):
    assert commit(checkout(tmp_path / ".git", files)) == HASH


def test_commit_of_a_worktree(tmp_path):
    main = {"HEAD": "ref: refs/heads/main\n", "refs/heads/side": f"{HASH}\n"}
    side = {"worktrees/side/HEAD": "ref: refs/heads/side\n", "worktrees/side/commondir": "../..\n"}
    checkout(tmp_path / "main/.git", {**main, **side})
    checkout(tmp_path / "side", {".git": f"gitdir: {tmp_path}/main/.git/worktrees/side\n"})
    assert commit(tmp_path / "side/.git") == HASH


@pytest.mark.parametrize("files", [{}, {"HEAD": "ref: refs/heads/new\n"}, {"packed-refs": ""}], ids=str)
def test_folder_without_a_commit_has_none(tmp_path, files):
    assert commit(checkout(tmp_path / ".git", files)) == ""


def test_image_without_a_checkout_is_told_its_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACE_REVISION", "abc123")
    code_revision.cache_clear()
    found = code_revision(tmp_path)
    monkeypatch.delenv("TRACE_REVISION")
    code_revision.cache_clear()
    assert found["commit"] == "abc123" and found["version"]
    monkeypatch.setattr(provenance, "PACKAGE", "not-installed-anywhere")
    assert code_revision(tmp_path) == {"version": "", "commit": ""}
    code_revision.cache_clear()
