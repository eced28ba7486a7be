"""Run the code cells of a notebook one after the other, as a kernel does: ``python notebook_runner.py FILE``.

The namespace is that of ``__main__``. The value of the last expression of a cell is shown as HTML or as text.
"""

import ast
import json
import sys


def run_cell(source, name, namespace):
    """Run one cell and return the value of its last expression, or ``None``."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), namespace)


def main(path):
    import __main__

    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            shown = run_cell("".join(cell["source"]), f"<cell {number}>", __main__.__dict__)
            if shown is not None:
                as_html = getattr(shown, "_repr_html_", None)
                print(f"cell {number}:", as_html() if as_html is not None else repr(shown))


if __name__ == "__main__":
    main(sys.argv[1])
