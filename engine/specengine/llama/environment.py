"""What must be in the environment before llama.cpp's library is loaded.

OpenMP and ggml read these variables once, when the library is loaded; setting `os.environ`
before that is enough, since Python passes it on to the C environment.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

# GCC's OpenMP spins for minutes of CPU time at each barrier. With one busy neighbour on a core
# that turns a pass of 20 ms into 3 s; a short spin keeps the speed and lets the neighbour run.
# Measured (docs/install.md): half of it costs 4% on a quiet machine, twice as much 15% on a busy.
SPIN_COUNT = "2000"


def settings(environ: MutableMapping[str, str]) -> dict[str, str]:
    """The variables to add to `environ`. A person's own choice of how threads wait stands."""
    additions = {}
    if "GOMP_SPINCOUNT" not in environ and "OMP_WAIT_POLICY" not in environ:
        additions["GOMP_SPINCOUNT"] = SPIN_COUNT
    if "GGML_NO_BACKTRACE" not in environ:
        # Without it a failed assertion starts a debugger in the person's terminal.
        additions["GGML_NO_BACKTRACE"] = "1"
    return additions


def prepare() -> None:
    """Set what is missing in this process's environment."""
    os.environ.update(settings(os.environ))
