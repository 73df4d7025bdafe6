"""The offline judge on samples written apart from the offline writers: planted faults caught, clean samples passed."""

from tests.synthesis.judged.read import judged, table


def test_the_held_out_half_is_caught_where_planted_and_passed_where_clean(capsys):
    found = judged("held_out")
    with capsys.disabled():
        print("\n" + table(found))
