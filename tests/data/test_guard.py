"""Errors of other libraries on damaged files become one sentence."""

import av.error
import pytest

from pureward.data.guard import guarding
from pureward.errors import InputError


@pytest.mark.parametrize(
    "error", [av.error.PatchWelcomeError(1163346256, "not yet implemented"), OSError("cut short")]
)
def test_an_error_of_a_decoder_is_told_with_the_file(error):
    with pytest.raises(InputError, match=r"^film\.webm: cannot be read"), guarding("film.webm"):
        raise error
