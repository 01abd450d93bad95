"""The command line: `specchat COMMAND`, or the chat if no command is given."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import click
from click.core import ParameterSource

from specchat.cli.options import answer_options, model_options
from specchat.version import __version__

logger = logging.getLogger(__name__)

COMMANDS = ("ask", "models", "serve", "connect", "bench", "verify", "doctor", "sessions", "locate")


class _Commands(click.Group):
    """Imports a command's module only when it is asked for: `--help` and first paint stay quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"specchat.cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "color": False if os.environ.get("NO_COLOR") else None,  # https://no-color.org
    },
)
@model_options
@answer_options
@click.version_option(__version__, prog_name="specchat")
@click.pass_context
def specchat(context: click.Context, /, **flags: Any) -> None:
    """Chat with a local model, faster than the model alone.

    Without a command, open the chat; if standard input is not a terminal, answer it and exit.
    """
    if context.invoked_subcommand is not None:
        _refuse_misplaced(context, context.invoked_subcommand, flags)
    elif sys.stdin is not None and sys.stdin.isatty():
        context.exit(context.obj(flags))
    else:
        from specchat.cli.commands.ask import command as ask

        context.exit(context.invoke(ask, **flags))


def _refuse_misplaced(context: click.Context, command: str, flags: dict[str, Any]) -> None:
    """Flags before a command would silently do nothing."""
    for name in flags:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(f"{flag} must follow {command}: specchat {command} {flag} …")


def main(open_chat: Callable[[Mapping[str, Any]], int]) -> None:
    """Run the command line, and `open_chat` with its flags where no command is given."""
    run_program(specchat, open_chat)


def run_program(command: click.Command, obj: object = None) -> None:
    """Run `command` with the arguments of this process, and exit.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    _take_every_character(sys.stdout)
    sys.exit(_run(command, obj))


def _take_every_character(output: TextIO | None) -> None:
    """Let no answer or file name be an error: files and pipes get UTF-8 whatever the locale is, a
    terminal that cannot show a character shows a question mark.
    """
    if isinstance(output, io.TextIOWrapper):
        if output.isatty():
            output.reconfigure(errors="replace")
        else:
            output.reconfigure(encoding="utf-8", errors="backslashreplace")


def _run(command: click.Command, obj: object) -> int:
    try:
        result = command.main(standalone_mode=False, obj=obj)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output is gone: nothing is left to say, at interpreter exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        click.echo(f"{command.name}: {_in_one_line(error)}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _in_one_line(error: Exception) -> str:
    """What went wrong, which may quote a file that anybody wrote; the traceback of what is a fault
    of the program goes to the log.
    """
    # Late: most runs need none of them.
    from specchat.config import locations
    from specchat.config.log import log_to_file
    from specchat.errors import SpecchatError
    from specchat.printable import one_line
    from specengine.core.errors import SpecEngineError

    if isinstance(error, SpecchatError | SpecEngineError):
        return one_line(str(error))
    log_to_file()
    logger.critical("the program failed", exc_info=error)
    if isinstance(error, OSError) and error.strerror:  # a full disk behind the output, say
        return one_line(": ".join(str(part) for part in (error.filename, error.strerror) if part))
    fault = one_line(f"{type(error).__name__}: {error}")
    return f"internal error ({fault}); see {locations.log_file()} for details"
