import logging
import sys
import warnings

from models.checkpoints.importers import library


def test_the_library_is_found_where_it_is_installed():
    assert library.transformers().__name__ == "transformers"
    assert library.transformers() is sys.modules["transformers"]


def test_a_library_that_is_missing_or_too_old_is_none(monkeypatch):
    monkeypatch.setattr(library.transformers(), "__version__", "4.57.6")
    assert library.transformers() is None
    monkeypatch.setitem(sys.modules, "transformers", None)  # as where it is not installed
    assert library.transformers() is None


def test_what_the_library_tells_its_users_is_kept_from_ours(capfd):
    theirs = library.transformers().utils.logging
    before = theirs.get_verbosity()
    with library.quietly():
        warnings.warn("about their options", stacklevel=1)  # an error in these tests otherwise
        theirs.get_logger("transformers").warning("about their options")
    assert capfd.readouterr().err == ""
    assert theirs.get_verbosity() == before != logging.ERROR
