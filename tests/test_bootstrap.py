"""Set-up says one line a step, and all that a tool said where it fails."""

import re
import sys

import pytest

from trace_site.dev.bootstrap import step

WELL = [sys.executable, "-c", "print('Collecting torch')"]
BADLY = [sys.executable, "-c", "import sys; print('Collecting torch'); sys.exit('no space left')"]


def test_a_step_is_one_line_with_how_long_it_took(capsys):
    step("install torch", "Check the network.", BADLY, WELL)
    assert re.fullmatch(r"set-up: install torch \.\.\. \d+ s\n", capsys.readouterr().out)


def test_a_step_that_fails_shows_all_that_was_said_and_what_to_do(capsys):
    with pytest.raises(SystemExit) as ended:
        step("install torch", "Check the network.", BADLY, BADLY)
    assert capsys.readouterr().out.count("Collecting torch\nno space left") == 2
    assert "'install torch' failed" in str(ended.value) and "Check the network." in str(ended.value)
