"""One file per command; each defines ``command``, registered by :mod:`tgp_cli.main`."""
