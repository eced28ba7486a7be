"""The ``tgp`` command line. Commands call the library and print its results; they contain no other logic."""
