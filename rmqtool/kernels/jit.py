"""Compilation of numba kernels, and the cache of their machine code.

All private names of numba are here. Where a release lacks one, ``njit(cache=True)`` compiles the kernels, in
the same folder, and each start loads them slower.

numba keys its on-disk cache by the file that holds a kernel: it notices neither a changed constant that the
kernel took from another module nor a changed kernel it calls. So the cache folder is named after a digest of
every source a kernel can depend on. ``RMQTOOL_CACHE_DIR`` (or ``XDG_CACHE_HOME``) places the folder. Where it
cannot be written, a private folder in the system's temporary directory serves, never through a link that
somebody put there. It begins as a copy of one that cannot be written, as in an image, if the owner of that
could change this program, too.

numba reads settings from a ``.numba_config.yaml`` of the working directory, at its import and before each
compilation, if PyYAML is installed; else it warns of the file. Examiners often work inside the evidence, so
such a file must change nothing. PyYAML and coverage.py are loaded for nothing else. A process that has
imported numba before keeps its settings.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rmqtool.caches import is_private, is_trusted, user_cache
from rmqtool.imports import imported_late, not_installed
from rmqtool.interrupts import interrupts_later
from rmqtool.progress import COMPILATION

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Iterator
    from importlib.resources.abc import Traversable

    from numpy.typing import DTypeLike


def _import_unsteered() -> None:
    # html is for pictures; importlib.metadata looks for extensions of the compiler, and loads email
    late = imported_late("html", "importlib.metadata")
    with not_installed("yaml", "coverage"), late, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A Numba config file is found")
        import numba.core.config
    numba.core.config._config_fname = os.devnull


if "numba" not in sys.modules:
    _import_unsteered()

import numba  # noqa: E402 - not before
import numpy as np  # noqa: E402 - which numba brings
from llvmlite import binding, ir  # type: ignore[import-untyped] # noqa: E402 - as numba, which brings it
from numba.core import cgutils, types  # noqa: E402
from numba.extending import infer_getattr, intrinsic  # noqa: E402

try:
    from numba.core.caching import CompileResultCacheImpl, FunctionCache
    from numba.core.codegen import CPUCodeLibrary
    from numba.core.dispatcher import Dispatcher
    from numba.core.options import DefaultOptions
    from numba.core.typing.templates import AttributeTemplate
    from numba.np import numpy_support
except ImportError:
    CompileResultCacheImpl = FunctionCache = CPUCodeLibrary = DefaultOptions = object
    AttributeTemplate = Dispatcher = object
    numpy_support = None

__all__ = [
    "KERNEL_PACKAGES",
    "binding",
    "cache_folder",
    "cgutils",
    "compile_kernels",
    "empty",
    "entry",
    "inlined",
    "intrinsic",
    "ir",
    "kernel",
    "numba",
    "types",
]

KERNEL_PACKAGES = ("formats", "kernels")

_Kernel = TypeVar("_Kernel", bound="Callable[..., Any]")


@cache
def _sources_digest() -> str:
    package = files("rmqtool")  # which may lie in a zip archive
    checked = os.environ.get("NUMBA_BOUNDSCHECK", "")
    digest = hashlib.sha256(f"{numba.__version__} {checked}".encode())
    digest.update(package.joinpath("javacompat.py").read_bytes())
    for name in KERNEL_PACKAGES:
        for source in _sources(package / name):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name.endswith(".py"):
            yield entry
        elif entry.is_dir():
            yield from _sources(entry)


def _copy(source: Path, folder: Path) -> None:
    """Fill a folder that does not exist; the first of several processes does it."""
    partial = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        shutil.copytree(source, partial, dirs_exist_ok=True, copy_function=shutil.copyfile)
        partial.chmod(0o700)
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)


def cache_folder() -> Path:
    """Return the folder for compiled kernels of exactly these sources, created if missing."""
    name = f"kernels-{_sources_digest()}"
    base = user_cache()
    given = None if base is None else base / "rmqtool" / name
    if given is not None and is_private(given):
        return given
    fallback = Path(tempfile.gettempdir()) / f"rmqtool-{os.geteuid()}" / name
    if not is_private(fallback.parent):
        return Path(tempfile.mkdtemp())
    if given is not None and not fallback.exists() and is_trusted(given):
        _copy(given, fallback)
    return fallback if is_private(fallback) else Path(tempfile.mkdtemp())


_FOLDER = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_folder())
"""Of kernels; other programs in this process keep theirs where they did."""


# What numba made lives as long as the process; looking for garbage in it at the end takes 0.3 s.
atexit.register(gc.freeze)


_HELPED_CORES = 2
_PATIENCE_S = 30.0
"""Longer than any kernel takes, where other processes are at work as well."""


def _take_turn(path: Path) -> int | None:
    """Wait until no other process compiles a kernel, but not for one that died in the middle.

    Returns an open file that makes others wait; None where files cannot be locked, or the wait was too long.
    """
    deadline = time.monotonic() + _PATIENCE_S
    with contextlib.suppress(OSError), contextlib.ExitStack() as undone:  # a file system without locks
        turn = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        undone.callback(os.close, turn)
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                undone.pop_all()
                return turn
            time.sleep(0.02)
    return None


_HELPERS: list[subprocess.Popen[bytes]] = []
_FROM_THE_LAST = "import sys; from rmqtool.kernels import jit; jit.compile_from_the_last(sys.argv[1:])"


@cache
def _have_help() -> None:
    """Have another process compile the same kernels from the last to the first, as long as this one lives.

    For a command, whose progress is shown; a library starts no processes of its own accord. The front end of
    numba holds the GIL, so threads would not do.
    """
    if COMPILATION.listener is None or len(os.sched_getaffinity(0)) < _HELPED_CORES:
        return
    import subprocess  # which nothing else loads

    modules = dict.fromkeys(compiled.__module__ for compiled, _ in (*_RARE, *_ENTRIES))
    with contextlib.suppress(OSError):  # a helper is no need
        # -P: no module of the working directory, which may be the evidence
        words = [sys.executable, "-P", "-c", _FROM_THE_LAST, *modules]
        null = subprocess.DEVNULL
        helper = subprocess.Popen(words, stdin=null, stdout=null, stderr=null)
        _HELPERS.append(helper)
        atexit.register(helper.kill)


def _has_private_names() -> bool:
    """Return whether this numba has all names that `_KernelCache` and `_Uncompiled` use."""
    needed = {
        FunctionCache: ("_impl_class", "_load_overload", "load_overload", "save_overload", "cache_path"),
        CompileResultCacheImpl: ("_locator_classes", "reduce", "rebuild", "filename_base"),
        DefaultOptions: ("_nrt", "no_cfunc_wrapper", "no_cpython_wrapper", "forceinline"),
        CPUCodeLibrary: ("_get_module_for_linking",),
        numpy_support: ("from_dtype", "map_layout"),
        types.Tuple: ("from_types",),
        Dispatcher: ("_compile_for_args", "_compilation_chain_init_hook", "typeof_pyval"),
    }
    if not all(hasattr(owner, name) for owner, names in needed.items() for name in names):
        return False
    return "_shared_module" in CPUCodeLibrary._get_module_for_linking.__code__.co_names


_HAS_PRIVATE_NAMES = _has_private_names()


class _MemberAttribute(AttributeTemplate):  # type: ignore[misc] # numba has no types
    """Makes members of our IntEnums integers in kernels: not every numba takes them as indices."""

    key = types.IntEnumClass

    def generic_resolve(self, enumeration: Any, name: str) -> Any:  # noqa: ANN401 - numba's own
        """Return the type of a member; None leaves it to numba, as for other programs in this process."""
        ours = enumeration.instance_class
        is_ours = ours.__module__.startswith(f"{__name__.partition('.')[0]}.")
        return enumeration.dtype if is_ours and name in ours.__members__ else None


if _HAS_PRIVATE_NAMES:
    infer_getattr(_MemberAttribute)


class _KernelPlace:
    """Place of a kernel in numba's cache: by its module's name, wherever that was imported from.

    numba's own locators take the path, so that machine code made elsewhere (in an image, in an archive that
    executors unpack) is never found; and they find nothing for a module in a zip archive.
    """

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._py_file = path  # numba names it in a warning
        self._line = function.__code__.co_firstlineno
        self._folder = _FOLDER / function.__module__.rpartition(".")[0]

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> _KernelPlace:
        """Return the place of a kernel, as numba requires."""
        return cls(function, path)

    def get_cache_path(self) -> str:
        """Return the folder, created if missing; where it cannot be, nothing is kept."""
        with contextlib.suppress(OSError):
            self.ensure_cache_path()
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        """Create the folder; numba handles the OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """Return a stamp that changes with any source of any kernel."""
        return _sources_digest()

    def get_disambiguator(self) -> str:
        """Return a name that distinguishes kernels of one name in one module."""
        return str(self._line)


def _names_alone(bitcode: bytes) -> bytes:
    """Return a module that defines the names of another one, with nothing in them."""
    module, full = ir.Module(), binding.parse_bitcode(bitcode)
    nothing, byte = ir.FunctionType(ir.VoidType(), []), ir.IntType(8)
    for function in full.functions:
        if not function.is_declaration:
            named = ir.Function(module, nothing, function.name)
            ir.IRBuilder(named.append_basic_block()).unreachable()
    for variable in full.global_variables:
        if not variable.is_declaration:
            ir.GlobalVariable(module, byte, variable.name).initializer = ir.Constant(byte, 0)
    return bytes(binding.parse_assembly(str(module)).as_bitcode())


def _linkable(library: Any, bitcode: bytes) -> Any:  # noqa: ANN401 - numba's own
    """Return the module with which a kernel that calls a loaded one is linked."""
    if library._shared_module is None:
        library._shared_module = binding.parse_bitcode(bitcode)
    return library._shared_module


class _KernelResult(CompileResultCacheImpl):  # type: ignore[misc] # numba has no types
    """Keeps the code for linking apart from a kernel, so that mere callers do not parse it.

    Parsing it is two thirds of what numba does to load a kernel, and only the names in it are needed.
    """

    _locator_classes = (_KernelPlace,)

    def reduce(self, result: Any) -> tuple[Any, bytes]:  # noqa: ANN401 - numba's own
        """Return what is kept, and apart from it the code for linking."""
        (name, kind, (machine_code, bitcode)), *rest = super().reduce(result)
        return ((name, kind, (machine_code, _names_alone(bitcode))), *rest), bitcode

    def rebuild(self, target_context: Any, kept: tuple[Any, bytes]) -> Any:  # noqa: ANN401 - numba's own
        """Return a kernel that can be called, and linked once a caller of it is compiled."""
        payload, bitcode = kept
        result = super().rebuild(target_context, payload)
        result.library._shared_module = None
        result.library._get_module_for_linking = partial(_linkable, result.library, bitcode)
        return result


class _KernelCache(FunctionCache):  # type: ignore[misc] # numba has no types
    """Loads machine code without the compiler's registries, and compiles in one process at a time.

    ``FunctionCache.load_overload`` first fills those registries, 0.15 s at the first kernel. A kernel on disk
    needs none of them, and the compiler fills them itself.
    """

    _impl_class = _KernelResult

    def __init__(self, function: object) -> None:
        super().__init__(function)
        self._turn_path = Path(self.cache_path) / f"{self._impl.filename_base}.turn"
        self._turn: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - numba's own
        """Load a kernel for argument types; None if it is not on disk."""
        overload = self._load_overload(sig, target_context)
        if overload is not None:
            COMPILATION.ready += 1
            return overload
        if self._turn is None:  # else it has failed to compile before
            _have_help()
            COMPILATION.begin()
            self._turn = _take_turn(self._turn_path)
        overload = self._load_overload(sig, target_context)  # the other process has made it
        if overload is not None:
            self._end()
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401 - numba's own
        """Keep a kernel; a full disk costs time at the next start, and must not end this run."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)
        self._end()

    def _end(self) -> None:
        if self._turn is not None:
            self._turn_path.unlink(missing_ok=True)
            os.close(self._turn)
            self._turn = None
        COMPILATION.end()


_array_type = cache(types.Array)
"""Kept for good: numba's C code knows a type by a number that ends with it."""


@cache
def _tuple_type(members: tuple[Any, ...], kind: type) -> Any:  # noqa: ANN401 - numba's own
    return types.Tuple.from_types(members, kind)


def _type_of(numbas: Callable[[Any], Any], value: object) -> Any:  # noqa: ANN401 - numba's own
    """Return the type of an argument; numba's function loads numpy.ma to refuse what none of ours is."""
    if isinstance(value, tuple):
        return _tuple_type(tuple(_type_of(numbas, member) for member in value), type(value))
    if type(value) is not np.ndarray:
        return numbas(value)
    layout, is_fixed = numpy_support.map_layout(value), not value.flags.writeable
    return _array_type(numpy_support.from_dtype(value.dtype), value.ndim, layout, is_fixed)


class _Uncompiled:
    """A kernel, of which numba makes a dispatcher once that is called, or a kernel is compiled that calls it.

    A start that finds its kernels on disk needs a fifth of all dispatchers.
    """

    def __init__(self, function: Callable[..., Any], *, inline: bool) -> None:
        self.py_func, self._inline = function, inline
        COMPILATION.kernels += 1

    @cached_property
    def dispatcher(self) -> Any:  # noqa: ANN401 - numba's own
        if not _HAS_PRIVATE_NAMES:
            others, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_FOLDER)
            try:
                return numba.njit(nogil=True, cache=True)(self.py_func)
            finally:
                numba.config.CACHE_DIR = others
        no_wrapper = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
        compiled = numba.njit(nogil=True, _nrt=False, forceinline=self._inline, **no_wrapper)(self.py_func)
        compiled._cache = _KernelCache(self.py_func)
        compiled._compile_for_args = interrupts_later()(compiled._compile_for_args)
        # Extensions of all installed packages are for the compiler, which loads them, not for machine code.
        compiled._compilation_chain_init_hook = lambda: None
        compiled.typeof_pyval = partial(_type_of, compiled.typeof_pyval)
        return compiled

    @property
    def _numba_type_(self) -> Any:  # noqa: ANN401 - numba's own
        """By this numba knows the kernel in another one."""
        return self.dispatcher._numba_type_


def kernel(function: _Kernel) -> _Kernel:
    """Compile at the first call, keep on disk, run without the GIL.

    Kernels allocate nothing, so numba's counting of references to arrays is switched off (``_nrt``): it
    costs two atomic operations for each array at each call, more than hashing a key. A kernel that does
    allocate is refused by the compiler. Nothing calls kernels from C, and Python only each `entry`: the
    others get no wrapper for it, which would be a fifth of compiling, and Python cannot call them.
    Bounds are checked under ``NUMBA_BOUNDSCHECK=1``.

    The function keeps its type, which numba's decorator loses for mypy.
    """
    return cast("_Kernel", _Uncompiled(function, inline=False))


def inlined(function: _Kernel) -> _Kernel:
    """Compile as `kernel`, into each kernel that calls it: an array is seven arguments, all on the stack.

    For short ones that are called for every message, with arrays or for few bytes.
    """
    return cast("_Kernel", _Uncompiled(function, inline=True))


_ENTRIES: list[tuple[Callable[..., Any], Callable[[], tuple[object, ...]]]] = []
_RARE: list[tuple[Callable[..., Any], Callable[[], tuple[object, ...]]]] = []


def entry(example: Callable[[], tuple[object, ...]], *, rare: bool = False) -> Callable[[_Kernel], _Kernel]:
    """Register a kernel that plain Python calls; those that only kernels call are compiled with these.

    ``example`` returns arguments of the types it gets at work, with nothing to do in them. ``rare`` ones are
    for damage or a few commands.
    """

    def register(uncompiled: _Kernel) -> _Kernel:
        compiled: _Kernel = uncompiled.dispatcher  # type: ignore[attr-defined] # of an `_Uncompiled`
        (_RARE if rare else _ENTRIES).append((compiled, example))
        compiled.targetoptions["no_cpython_wrapper"] = False  # type: ignore[attr-defined] # numba's
        return compiled

    return register


def empty(*kinds: DTypeLike) -> tuple[np.ndarray[Any, Any], ...]:
    """Return arrays without elements, for examples of arguments."""
    return tuple(np.empty(0, kind) for kind in kinds)


def compile_kernels(*, rare: bool = True) -> None:
    """Compile the kernels of all modules loaded so far, or load them from disk.

    Without this, every worker of a fresh installation would compile all of them at the same time. Where rare
    ones are left out, no other process goes on with them: Spark needs all cores.
    """
    for compiled, example in (*(_RARE if rare else ()), *_ENTRIES):
        compiled(*example())
    for helper in () if rare else _HELPERS:
        helper.kill()


def compile_from_the_last(modules: Iterable[str]) -> None:
    """Compile the kernels of modules from the last to the first, for a process that begins at the first."""
    for module in modules:
        importlib.import_module(module)
    for compiled, example in reversed((*_RARE, *_ENTRIES)):
        compiled(*example())
