"""Run the command line: ``python -m tgp`` is ``tgp``."""

from tgp_cli.main import main

if __name__ == "__main__":  # worker processes import this module under another name
    main()
