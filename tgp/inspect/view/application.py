"""Answer the requests of the viewer: pages, JSON and static files. Knows nothing about HTTP connections."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tgp._version import __version__
from tgp.errors import InputError, StoreError, TgpError, UnknownNameError
from tgp.inspect.report.drawings import GraphDrawing, draw_graph
from tgp.inspect.report.page import MARK, page_values, render_page, static_text, template_environment
from tgp.inspect.report.page_contents import ReportContents, collect_contents
from tgp.inspect.view.listing import address, graph_figures, list_graphs, problem_searches
from tgp.inspect.view.search import GraphIndex, Query
from tgp.store.locations import Location, open_store, result_path, shown_location
from tgp.store.read.parts import manifest_version
from tgp.text import inert_text

__all__ = ["Response", "StoreApplication"]

DRAWN = 16
"""Number of graphs whose drawings are kept in memory."""

_LOG = logging.getLogger(__name__)
_PACKAGE = "tgp.inspect.view"
_STATIC = {
    "report.css": ("tgp.inspect.report", "text/css"),
    "report.js": ("tgp.inspect.report", "text/javascript"),
    "view.css": (_PACKAGE, "text/css"),
    "view.js": (_PACKAGE, "text/javascript"),
    "icon.svg": (_PACKAGE, "image/svg+xml"),
}
"""Files by their address: package and content type. There are no others, so no address is a path of the file system."""


@dataclass(frozen=True)
class Response:
    """Answer to a request.

    Args:
        status: HTTP status.
        content_type: type of the content, with its encoding.
        body: content.
        location: address to go on to, for the status 303.
    """

    status: int
    content_type: str
    body: bytes
    location: str | None = None


class _OpenStore:
    """A store and everything that was computed from it."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.reader = open_store(location)
        self.index = GraphIndex(self.reader)
        self._version = manifest_version(self.reader.files)
        self._drawn: OrderedDict[int, GraphDrawing] = OrderedDict()

    @property
    def replaced(self) -> bool:
        """True if a local store was computed again or removed after it was opened."""
        return manifest_version(self.reader.files) != self._version

    @cached_property
    def contents(self) -> ReportContents:
        """Contents of the report, without drawings."""
        return collect_contents(self.location, [])

    def draw(self, graph: int) -> GraphDrawing:
        """Return the drawings of a graph in all hierarchies."""
        if graph not in self._drawn:
            self._drawn[graph] = draw_graph(self.reader, graph)
        self._drawn.move_to_end(graph)
        while len(self._drawn) > DRAWN:
            self._drawn.popitem(last=False)
        return self._drawn[graph]


class StoreApplication:
    """Pages about one store. Requests may come from several threads; one at a time reads the store.

    If the store was computed again, or after an error, the next request opens it again.

    Args:
        location: directory or URL of the store.

    Raises:
        StoreError: if the store is missing or damaged.
    """

    def __init__(self, location: Location) -> None:
        self.name = result_path(location, "").name
        self._location = location
        self._lock = threading.Lock()
        self._store: _OpenStore | None = _OpenStore(location)
        self._pages: dict[str, Callable[[_OpenStore, Mapping[str, str]], Response]] = {
            "": self._overview,
            "graphs": self._graphs_page,
            "graphs.json": self._graphs_json,
            "graph": self._graph_page,
            "graph.json": self._graph_json,
        }

    def respond(self, page: str, values: Mapping[str, str]) -> Response:
        """Answer a request. Errors become pages, or JSON if the page is JSON.

        Args:
            page: name of the page; the overview if empty.
            values: values of the address.
        """
        if page in _STATIC:
            package, kind = _STATIC[page]
            return Response(200, f"{kind}; charset=utf-8", static_text(page, package).encode())
        if page not in self._pages:
            text, root = "There is no such page.", "../" * page.count("/")
            return self.error(404, text, as_json=page.endswith(".json"), root=root)
        with self._lock:
            try:
                if self._store is None or self._store.replaced:
                    self._store = _OpenStore(self._location)
                return self._pages[page](self._store, values)
            except Exception as error:  # noqa: BLE001 - every request gets an answer
                if not isinstance(error, InputError | UnknownNameError):
                    self._store = None
                return self._explain(error, as_json=page.endswith(".json"))

    def close(self, timeout: float) -> None:
        """Wait until no request reads the store, and keep later requests waiting.

        Args:
            timeout: seconds to wait at most.
        """
        self._lock.acquire(timeout=timeout)

    def error(
        self, status: int, text: str, hint: str | None = None, *, as_json: bool = False, root: str = ""
    ) -> Response:
        """Return the answer to a request that failed.

        Args:
            status: HTTP status.
            text: sentence that says what is wrong.
            hint: sentence that says what to do.
            as_json: return JSON instead of a page.
            root: relative path from the folder of the address to that of the pages.
        """
        # Errors name the files of the store. The name of the store is enough here.
        text = text.replace(shown_location(self._location), self.name)
        if as_json:
            return _json({"error": text, "hint": hint}, status)
        return self._page("error.html.jinja", status, text=text, hint=hint, query=Query(), root=root)

    def _explain(self, error: Exception, *, as_json: bool) -> Response:
        hint = getattr(error, "hint", None)
        if isinstance(error, _NoGraphError):
            return self.error(404, str(error), hint, as_json=as_json)
        if isinstance(error, InputError | UnknownNameError):
            return self.error(400, str(error), hint, as_json=as_json)
        if isinstance(error, StoreError):
            hint = hint or "'tgp verify' checks the whole store. Reload this page when it is repaired."
        if isinstance(error, TgpError | OSError):
            return self.error(500, str(error), hint, as_json=as_json)
        _LOG.error("unexpected %s: %s", type(error).__name__, error)
        _LOG.debug("traceback", exc_info=error)
        return self.error(500, f"Unexpected {type(error).__name__}: {error}", as_json=as_json)

    def _page(self, template: str, status: int = 200, **values: Any) -> Response:
        common = {
            "name": self.name,
            "version": __version__,
            "address": address,
            "search_for": Query,
            "root": "",
        }
        text = render_page(template_environment(_PACKAGE), template, common | values)
        return Response(status, "text/html; charset=utf-8", text.encode())

    def _overview(self, store: _OpenStore, values: Mapping[str, str]) -> Response:
        problems = problem_searches(store.contents.findings)
        return self._page(
            "overview.html.jinja", query=Query(), problems=problems, **page_values(store.contents)
        )

    def _graphs_page(self, store: _OpenStore, values: Mapping[str, str]) -> Response:
        query, error, listing = _query(values), None, None
        if values.get("go") and query.text.isdigit() and query.text.isascii():
            # The search of other pages leads from an id directly to the graph.
            return Response(
                303, "text/plain", b"", address("graph", Query(), id=_graph(store, {"id": query.text}))
            )
        try:
            listing = list_graphs(store.index, query, _number(values, "offset") or 0)
        except (InputError, UnknownNameError) as found:
            error = found
        hierarchies = store.reader.hierarchies
        return self._page(
            "graphs.html.jinja",
            200 if error is None else 400,
            query=query,
            listing=listing,
            error=error,
            hierarchies=[*hierarchies],
            deepest=max((info.depth for info in hierarchies.values()), default=0),
            figures=store.index.figures(store.index.places(Query())),
        )

    def _graphs_json(self, store: _OpenStore, values: Mapping[str, str]) -> Response:
        return _json(list_graphs(store.index, _query(values), _number(values, "offset") or 0).to_json())

    def _graph_page(self, store: _OpenStore, values: Mapping[str, str]) -> Response:
        graph, query = _graph(store, values), _query(values)
        position, before, after = store.index.neighbours(query, graph)
        item = store.draw(graph)
        return self._page(
            "graph.html.jinja",
            item=item,
            deepest=max(item.levels),
            query=query,
            position=position,
            total=len(store.index.search(query)),
            before=before,
            after=after,
            figures=graph_figures(store.reader, graph),
        )

    def _graph_json(self, store: _OpenStore, values: Mapping[str, str]) -> Response:
        graph, query = _graph(store, values), _query(values)
        nodes, edges = (int(column[graph]) for column in store.reader.sizes())
        position, before, after = store.index.neighbours(query, graph)
        return _json(
            {
                "graph": graph,
                "nodes": nodes,
                "edges": edges,
                "position": position,
                "previous": before,
                "next": after,
                "levels": graph_figures(store.reader, graph).to_json(),
            }
        )


class _NoGraphError(InputError):
    """Id of a graph that the store does not have."""


def _query(values: Mapping[str, str]) -> Query:
    return Query(
        values.get("q", "").strip(),
        values.get("sort", "").strip(),
        values.get("hierarchy") or None,
        _number(values, "level"),
    )


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(f"{name} is not a number: expected digits, got {text[:50]!r}", field=name)
    return int(text)


def _graph(store: _OpenStore, values: Mapping[str, str]) -> int:
    graph = _number(values, "id")
    total = store.reader.num_graphs
    if graph is None or graph >= total:
        have = f"graphs 0 to {total - 1}" if total else "no graphs"
        raise _NoGraphError(f"the store holds {have}, got {'no id' if graph is None else graph}", field="id")
    return graph


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(_inert(value), allow_nan=False).encode()
    return Response(status, "application/json; charset=utf-8", body)


def _inert(value: Any) -> Any:
    """Replace control characters in all texts, as pages do."""
    if isinstance(value, dict):
        return {_inert(key): _inert(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_inert(item) for item in value]
    return inert_text(value, mark=MARK) if isinstance(value, str) else value
