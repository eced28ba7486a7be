"""Reference of Louvain and Leiden for one graph, in plain Python."""

from collections import deque

from tests.reference.graclus import WINDOW, draw

MARGIN = 1e-10


def undirected(num_nodes, edges):
    """Return the rows of ``A + A^T`` without self loops (``{neighbour: weight}``), and the degrees with self loops.

    ``edges`` lists ``(source, target, weight)``; the weight is ``None`` in an unweighted graph.
    """
    rows, loops = [{} for _ in range(num_nodes)], [0.0] * num_nodes
    for u, v, weight in edges:
        if weight is None:
            if u == v:
                loops[u] = 1.0
            else:
                rows[u][v] = rows[v][u] = 1.0
        elif u == v:
            loops[u] += 2.0 * weight
        elif weight > 0.0:
            rows[u][v] = rows[u].get(v, 0.0) + weight
            rows[v][u] = rows[v].get(u, 0.0) + weight
    rows = [dict(sorted(row.items())) for row in rows]
    return rows, [sum(row.values()) + loop for row, loop in zip(rows, loops, strict=True)]


def visiting_order(size, seed, level, number):
    """Return the nodes, shuffled from the front inside each window."""
    order = list(range(size))
    for low in range(0, size, WINDOW):
        for i in range(low, min(low + WINDOW, size)):
            j = low + draw(seed, level, i, number, i - low + 1)
            order[i] = order[j]
            order[j] = i
    return order


def links_of(row, label):
    """Return the weight from a node to each community, in the order of the first neighbour."""
    links = {}
    for u, weight in row.items():
        links[label[u]] = links.get(label[u], 0.0) + weight
    return links


def move_nodes(rows, degree, size, label, factor, max_size, order, effort):
    """Move nodes until no node wants to move, or until the work exceeds its limit. ``label`` is changed."""
    queue, cursor = deque(order), 0
    budget = effort * (len(rows) + sum(map(len, rows)))
    while queue and budget > 0:
        v = queue.popleft()
        budget -= len(rows[v]) + 1
        own = label[v]
        links = links_of(rows[v], label)
        members = {}
        volume = {}
        for u, c in enumerate(label):
            members[c] = members.get(c, 0) + size[u]
            volume[c] = volume.get(c, 0.0) + degree[u]
        pull = factor * degree[v]
        best = links.get(own, 0.0) - pull * (volume[own] - degree[v]) + MARGIN * degree[v]
        target = own
        for c, link in links.items():
            gain = link - pull * volume[c]
            if c != own and gain > best and members[c] + size[v] <= max_size:
                best, target = gain, c
        if best < 0.0 and members[own] > size[v]:
            while members.get(cursor, 0) > 0:
                cursor = (cursor + 1) % len(label)
            target = cursor
        if target == own:
            continue
        label[v] = target
        for u in rows[v]:
            if u not in queue and label[u] != target:
                queue.append(u)


def refine(rows, degree, label, factor, order):
    """Return the well connected parts of the communities."""
    size = len(rows)
    part = list(range(size))
    for v in order:
        inside = [u for u in range(size) if label[u] == label[v]]
        whole = sum(degree[u] for u in inside)

        def is_well_connected(nodes, inside=inside, whole=whole):
            rest = set(inside) - set(nodes)
            outgoing = sum(w for u in nodes for x, w in rows[u].items() if x in rest)
            volume = sum(degree[u] for u in nodes)
            return outgoing >= factor * volume * (whole - volume)

        if part.count(part[v]) > 1 or not is_well_connected([v]):
            continue
        links = links_of({u: w for u, w in rows[v].items() if label[u] == label[v]}, part)
        best, target = 0.0, part[v]
        for c, link in links.items():
            nodes = [u for u in range(size) if part[u] == c]
            gain = link - factor * degree[v] * sum(degree[u] for u in nodes)
            if gain > best and is_well_connected(nodes):
                best, target = gain, c
        part[v] = target
    return part


def components(rows, label):
    """Return the smallest node of the component of each node inside its community."""
    root = list(range(len(rows)))
    changed = True
    while changed:
        changed = False
        for v, row in enumerate(rows):
            for u in row:
                if label[u] == label[v] and root[u] < root[v]:
                    root[v], changed = root[u], True
    return root


def levels(num_nodes, edges, *, leiden=False, iterations=1, **options):
    """Return the aggregations of a run: for each of them, the cluster of each node of the level before."""
    rows, degree = undirected(num_nodes, edges)
    label = list(range(num_nodes))
    if leiden:
        for cluster in passes(rows, degree, list(label), False, 4, **options):
            label = [cluster[c] for c in label]
        label = [label.index(c) for c in label]
    for _ in range(iterations - 1):
        found = list(range(num_nodes))
        for cluster in passes(rows, degree, list(label), leiden, 50, **options):
            found = [cluster[c] for c in found]
        label = [found.index(c) for c in found]
    return passes(rows, degree, label, leiden, 50, **options)


def passes(rows, degree, label, leiden, effort, seed=0, level=0, resolution=1.0, max_size=None):
    """Return the aggregations of the passes that start from the communities ``label``."""
    size, found, number = [1] * len(rows), [], 0
    max_size = max_size or len(rows)
    total = sum(degree)
    while total > 0.0:
        order = visiting_order(len(rows), seed, level, number)
        move_nodes(rows, degree, size, label, resolution / total, max_size, order, effort)
        part = label
        if leiden:
            part = refine(rows, degree, label, resolution / total, order)
            if len(set(part)) > 0.95 * len(rows):
                part = label = components(rows, label)
        names = {}
        cluster = [names.setdefault(c, len(names)) for c in part]
        if len(names) == len(rows):
            break
        found.append(cluster)
        merged = [{} for _ in names]
        for v, row in enumerate(rows):
            for u, weight in row.items():
                if cluster[u] != cluster[v]:
                    merged[cluster[v]][cluster[u]] = merged[cluster[v]].get(cluster[u], 0.0) + weight
        members = [[v for v in range(len(rows)) if cluster[v] == c] for c in range(len(names))]
        first = {}
        communities = [label[nodes[0]] for nodes in members]
        label = (
            [first.setdefault(c, i) for i, c in enumerate(communities)] if leiden else list(range(len(names)))
        )
        rows = [dict(sorted(row.items())) for row in merged]
        degree, size = ([sum(values[v] for v in nodes) for nodes in members] for values in (degree, size))
        number += 1
    return found


def modularity(num_nodes, edges, cluster, resolution=1.0):
    """Return the modularity of clusters."""
    rows, degree = undirected(num_nodes, edges)
    total = sum(degree)
    if total == 0.0:
        return 0.0
    inside = sum(w for v, row in enumerate(rows) for u, w in row.items() if cluster[u] == cluster[v])
    inside += sum(d - sum(row.values()) for d, row in zip(degree, rows, strict=True))
    volume = {}
    for c, d in zip(cluster, degree, strict=True):
        volume[c] = volume.get(c, 0.0) + d
    return inside / total - resolution * sum((v / total) ** 2 for v in volume.values())
