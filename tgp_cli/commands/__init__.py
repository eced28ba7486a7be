"""Commands, one module each. A module defines ``command`` and ``EPILOG``; :mod:`tgp_cli.main` registers them."""
