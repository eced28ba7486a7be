"""Compiler of kernels: numba's compiler without the work that kernels do not need.

Most of the time of a first run is spent in numba. Four things are left out. None of them changes results:

- A function that only kernels call (``inner``) becomes part of its callers. No machine code is generated for the function itself,
  and it is optimized together with its callers, not before.
- Passes for features that kernels do not use (closures, ``with``, ``literal_unroll``, inlined overloads) are skipped.
- numba optimizes a module twice, the first time only to prepare the removal of reference counts. Kernels allocate nothing, so the
  second time is sufficient.
- numba finds the implementation of an operator by trying all of them, for every occurrence of the operator. The implementation
  that was found for some types is remembered.

The module uses private names of numba. It is used only with versions that were tested, see
:data:`tgp.kernels._cache.IS_KNOWN_NUMBA`. Other versions compile kernels with numba's own compiler, with the same results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from numba.core import codegen, compiler, typed_passes
from numba.core.compiler_machinery import register_pass
from numba.core.types import functions

__all__ = ["KernelCompiler", "remember_implementations"]

_SKIPPED = {
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "RewriteDynamicRaises",
    "WithLifting",
}
"""Passes of numba for features that kernels do not use."""


class _KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Machine code of a kernel and of the functions that it calls."""

    def _optimize_final_module(self) -> None:
        passes, builder = cast("Any", self._codegen)._module_pass_manager()
        passes.run(self._final_module, builder)


class _InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code of a function that only kernels call. It is linked into its callers, and never loaded by itself."""

    def finalize(self) -> None:
        """Link the functions that this one calls. Callers optimize all of them together."""
        cast("Any", self)._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@cast("Any", register_pass)(mutates_CFG=True, analysis_only=False)
class _KernelLowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """Translation of a kernel."""

    _name = "tgp_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Translate the kernel into a library of its own, or into one that can only be linked."""
        make = _InnerLibrary if state.flags.no_cpython_wrapper else _KernelLibrary
        library: Any = cast("Any", make)(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library = library
        if make is _KernelLibrary:
            library.enable_object_caching()
            return bool(cast("Any", super()).run_pass(state))
        state.flags.no_compile = True
        cast("Any", super()).run_pass(state)
        entry = object()  # callers find the function by its entry point, which is never called
        state.targetctx.insert_user_function(entry, state.cr.fndesc, [library])
        state.cr = state.cr._replace(cfunc=entry)
        return True


class KernelCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Compiler of kernels, in the interface of the option ``pipeline_class`` of :func:`numba.njit`."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes of numba without those that kernels do not need."""
        passes = cast("Any", compiler.DefaultPassBuilder).define_nopython_pipeline(self.state)
        passes.passes = [
            (_KernelLowering, text) if kind is typed_passes.NativeLowering else (kind, text)
            for kind, text in passes.passes
            if kind.__name__ not in _SKIPPED
        ]
        passes.finalize()
        return [passes]


_Implementations = dict[tuple[int, tuple[Any, ...]], tuple[Any, Any]]

_implementations: dict[str, _Implementations] = {}
"""Signatures that were found, by the options of the kernels. Each one keeps its function type, so that the id stays valid."""


@contextlib.contextmanager
def remember_implementations(options: str) -> Iterator[None]:
    """Let numba remember which implementation of an operator or function fits some types, inside the block.

    The caller holds numba's compiler lock, so that only kernels with the same options are compiled inside the block.

    Args:
        options: Options of the kernels. Implementations are compiled with the options of their callers.
    """
    found = _implementations.setdefault(options, {})
    function_type = cast("Any", functions.BaseFunction)
    search: Callable[..., Any] = function_type.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = (id(self), tuple(args))
        if kws or key not in found:
            signature = search(self, context, args, kws)
            if kws:
                return signature
            found[key] = self, signature
        return found[key][1]

    function_type.get_call_type = get_call_type
    try:
        yield
    finally:
        function_type.get_call_type = search
