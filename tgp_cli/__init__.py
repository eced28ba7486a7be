"""The ``tgp`` command line. It holds no logic: every command calls the library and prints."""
