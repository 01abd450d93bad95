"""Where the desktop build starts: the command line, or one of its own child processes.

specchat starts helpers as `sys.executable -m MODULE`. In the desktop build `sys.executable` is the
program itself, so it takes this form too, for these modules alone.
"""

import os
import runpy
import sys

CHILDREN = (
    "specengine.llama.probe_child",
    "specengine.load.trial_child",
    "specengine.load.cheaper_draft_child",
    "specchat.benchmark.neighbour",
)


def restore_library_path() -> None:
    """Leave the build's own libraries to this process alone.

    The bootloader puts them in front of the system's. They are loaded from there whatever happens
    to the variable now; a program of the system that we start must not get them.
    """
    original = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if original is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = original


def main() -> None:
    restore_library_path()
    if sys.argv[1:2] == ["-m"] and sys.argv[2:3] and sys.argv[2] in CHILDREN:
        module = sys.argv[2]
        del sys.argv[1:3]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    from specchat.__main__ import main as specchat

    specchat()


if __name__ == "__main__":
    main()
