"""``warmup`` and ``spark``: kernels compiled before the first run, here or in an archive for executors."""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys
import time
from pathlib import Path

import click

from rmqtool.cli.group import Command
from rmqtool.cli.options import A_PATH
from rmqtool.columns import require_library
from rmqtool.errors import ExitStatus
from rmqtool.progress import COMPILATION
from rmqtool.report.console import Console

_EXAMPLES = """\
# for this user
rmqtool warmup
# for an image
RMQTOOL_CACHE_DIR=/opt/rmqtool/cache rmqtool warmup
# where commands run on the embedded Spark
rmqtool warmup --spark
"""


@click.command("warmup", cls=Command, examples=_EXAMPLES)
@click.option("--spark", is_flag=True, help="Also write Java's cache for the start of Spark.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def warmup_command(spark: bool, quiet: bool) -> ExitStatus:
    """Compile all kernels now instead of at the first run.

    The kernels go to RMQTOOL_CACHE_DIR, else XDG_CACHE_HOME, else ~/.cache, for this version and this kind of
    processor.
    """
    from rmqtool.kernels.jit import cache_folder, compile_kernels

    started = time.perf_counter()
    load_kernels()
    console = Console(quiet=quiet)
    COMPILATION.listener = console.compiling
    try:
        compile_kernels()
    finally:
        console.close()
    if not quiet:
        click.echo(
            f"all {COMPILATION.kernels} kernels are in {cache_folder()}, "
            f"after {time.perf_counter() - started:.2f} s"
        )
    if spark:
        _keep_start(quiet=quiet)
    return ExitStatus.CLEAN


def _keep_start(*, quiet: bool) -> None:
    """Have Java keep what it needs to start Spark, and say where."""
    from rmqtool.engine.choice import require_spark

    require_spark()
    from rmqtool.engine.spark import train_start

    started = time.perf_counter()
    path, size_bytes = train_start()
    if not quiet:
        click.echo(
            f"Spark starts by {path}, {size_bytes >> 20} MiB, after {time.perf_counter() - started:.2f} s"
        )


def load_kernels() -> None:
    """Import every module that can hold a kernel: it is registered where it is defined."""
    from rmqtool.kernels.jit import KERNEL_PACKAGES

    for room in KERNEL_PACKAGES:
        package = importlib.import_module(f"rmqtool.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


_MEBIBYTE = 1 << 20
_PACK_EXAMPLES = """\
# an archive for executors that have only Python
rmqtool spark pack -o rmqtool-spark.tar.gz
# the same for stores as tables, and for export
rmqtool spark pack --with-arrow -o rmqtool-spark.tar.gz
"""


@click.command("spark", cls=Command, examples=_PACK_EXAMPLES)
@click.argument("action", type=click.Choice(["pack"]))
@click.option(
    "-o",
    "--output",
    type=A_PATH,
    metavar="FILE",
    default=Path("rmqtool-spark.tar.gz"),
    show_default=True,
    help="Archive to create; must not exist.",
)
@click.option("--with-arrow", is_flag=True, help="Pack pyarrow, too.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def spark_command(action: str, output: Path, with_arrow: bool, quiet: bool) -> ExitStatus:
    """Pack rmqtool for the executors of a Spark cluster.

    Executors then need only the same version of Python. The archive holds the compiled kernels, so that no
    executor compiles them. The command prints the options that use the archive. Stores as tables of a
    session, and export, also need the installed pyarrow.
    """
    del action  # there is one
    from rmqtool.engine.spark_pack import check_new, make_pack

    check_new(output)
    also = ["pyarrow"] if with_arrow else []
    require_library(*also)
    from rmqtool.kernels.jit import cache_folder, compile_kernels

    load_kernels()
    console = Console(quiet=quiet)
    COMPILATION.listener = console.compiling
    try:
        compile_kernels()
        pack = make_pack(output, cache_folder(), also)
    finally:
        console.close()
    if not quiet:
        click.echo("--engine spark --master URL \\")
        options = [f"  --spark-conf {name}={value}" for name, value in pack.settings.items()]
        click.echo(" \\\n".join(options))
        console.note(
            f"{pack.path}: {pack.size_bytes / _MEBIBYTE:.0f} MiB, {len(pack.packages)} packages, for Python"
            f" {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}"
        )
    return ExitStatus.CLEAN
