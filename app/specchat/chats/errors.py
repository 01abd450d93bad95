"""What goes wrong with stored chats and what a caller may do something about."""

from specchat.errors import SpecchatError


class GoneError(SpecchatError):
    """What was stored is gone: a message, its chat, or the file that all of it was in.

    Whoever still has it in memory can store it anew.
    """
