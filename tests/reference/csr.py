"""Reference of the row kernels, with edges in Python lists."""

import math

REDUCE = {
    "sum": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
    "min": min,
    "max": max,
    "mul": math.prod,
}


def entries(block):
    """Return ``[(row, col, weight)]`` in stored order; the weight is 1 if the block has no weights."""
    weight = block.weights_or_ones()
    return [
        (row, int(block.indices[e]), float(weight[e]))
        for row in range(block.num_nodes)
        for e in range(block.indptr[row], block.indptr[row + 1])
    ]


def merged(triples, reduce_op):
    """Merge parallel entries and return ``{(row, col): weight}``, sorted by key."""
    groups = {}
    for row, col, w in triples:
        groups.setdefault((row, col), []).append(w)
    return {key: REDUCE[reduce_op](groups[key]) for key in sorted(groups)}


def transposed(triples):
    """Return the entries of the transposed matrix, sorted by row and column; the sort is stable."""
    return sorted(((col, row, w) for row, col, w in triples), key=lambda t: t[:2])


def symmetrised(triples, reduce_op):
    """Merge entries with their mirror images; a self loop counts once."""
    back = [(col, row, w) for row, col, w in triples if row != col]
    return merged(triples + back, reduce_op)


def components(num_nodes, triples):
    """Return the component of each node, numbered by smallest member."""
    label = list(range(num_nodes))
    changed = True
    while changed:
        changed = False
        for row, col, _ in triples:
            low = min(label[row], label[col])
            changed |= label[row] != low or label[col] != low
            label[row] = label[col] = low
    names = {root: i for i, root in enumerate(sorted(set(label)))}
    return [names[root] for root in label]
