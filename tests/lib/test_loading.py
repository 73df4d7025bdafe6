"""What a process that loads many modules does about garbage, in a process that has just begun."""

import subprocess
import sys

BEGUN = "import gc; from trace_site.lib.loading import loading_modules as loading; "


def said_by(code: str) -> str:
    return subprocess.run([sys.executable, "-c", BEGUN + code], capture_output=True, text=True).stdout.strip()


def test_none_is_looked_for_while_modules_load_nor_among_them_later():
    code = "\nwith loading():\n print(gc.isenabled())\nprint(gc.isenabled(), gc.get_freeze_count() > 1000)"
    assert said_by(code).split() == ["False", "True", "True"]


def test_it_is_looked_for_again_after_a_module_that_fails():
    code = "\ntry:\n with loading(): import no_such_module\nexcept ImportError: print(gc.isenabled())"
    assert said_by(code) == "True"


def test_what_has_become_garbage_since_the_first_time_does_not_stay():
    first = "\nwith loading(): pass\nkept = gc.get_freeze_count()"
    again = "\nwith loading(): more = [[]]\nprint(gc.get_freeze_count() - kept)"
    assert said_by(first + again) == "0"
