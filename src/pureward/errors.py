# SPDX-License-Identifier: Apache-2.0
"""The one exception a user's input can cause."""


class InputError(ValueError):
    """Bad input, told in one sentence: the rule, the value that broke it, the remedy.

    The command line prints the sentence and exits with code 2; anything else that is
    raised is a bug of ours and keeps its traceback.
    """
