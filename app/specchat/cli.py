"""The command line: `specchat COMMAND`, or the chat where there is none."""

from __future__ import annotations

import importlib
import os
import sys

import click

from specchat.version import __version__

COMMANDS = ("ask", "models", "serve", "bench", "doctor", "sessions", "locate")


class _Commands(click.Group):
    """Imports a command's module only when it is asked for: `--help` and first paint stay quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"specchat.commands.{cmd_name}").command
        return command


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--profile", help="Target and drafter by the name of a profile.")
@click.version_option(__version__, prog_name="specchat")
@click.pass_context
def specchat(ctx: click.Context, profile: str | None) -> None:
    """Chat with a local model, faster than the model alone.

    Without a command: opens the chat; where standard input is not a terminal, answers it and exits.
    """
    if ctx.invoked_subcommand is not None:
        return
    if sys.stdin.isatty():
        from specchat.commands.chat import run_chat

        run_chat(profile)
    else:
        from specchat.commands.ask import command as ask

        ctx.invoke(ask, profile=profile)


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    sys.exit(_run())


def _run() -> int:
    try:
        result = specchat.main(standalone_mode=False)
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
        if not _is_ours(error):
            raise
        click.echo(f"specchat: {error}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _is_ours(error: Exception) -> bool:
    """Whether `str(error)` is a line meant for a person. Imported late: most runs need neither."""
    from specchat.errors import SpecchatError
    from specengine.errors import SpecEngineError

    return isinstance(error, SpecchatError | SpecEngineError)


if __name__ == "__main__":
    main()
