"""Nothing needed is ever removed, whatever shares a folder with what."""

from hypothesis import given
from hypothesis import strategies as st

from training.registry.retention import Held, removable

KEYS = st.sampled_from(["models/a", "models/b", "models/c", "models/d", "models/e"])
ROWS = st.lists(
    st.builds(
        Held,
        kind=st.sampled_from(["model", "stage"]),
        id=st.integers(1, 99),
        store_key=KEYS,
        why=st.sampled_from(["", "", "champion", "run 3 is under way"]),
    ),
    max_size=12,
)


@given(ROWS, st.sets(KEYS, max_size=2))
def test_no_folder_of_a_needed_row_and_no_last_valid_one_goes(rows, valid):
    gone = removable(rows, valid)
    assert not {row.store_key for row in rows if row.why} & set(gone) and not valid & set(gone)
    assert len(gone) == len(set(gone))


@given(ROWS)
def test_every_folder_that_nothing_needs_goes(rows):
    needed = {row.store_key for row in rows if row.why}
    assert set(removable(rows)) == {row.store_key for row in rows} - needed


def test_rows_that_share_a_folder_stay_together():
    rows = [Held("model", 1, "k"), Held("stage", 1, "k", why="run 2 is under way"), Held("model", 2, "other")]
    assert removable(rows) == ["other"]
