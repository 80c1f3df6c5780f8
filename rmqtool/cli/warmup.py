"""``warmup``: every kernel is compiled before it is needed, with the types that it is called with at work."""

from __future__ import annotations

import importlib
import pkgutil
import time

import click

from rmqtool.cli.help import Command
from rmqtool.compiling import COMPILATION
from rmqtool.errors import ExitStatus
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
    from rmqtool.jit import cache_folder, compile_kernels

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
    """Have Java keep what it needs to start Spark, and say where.

    Raises:
        EnvironmentFailureError: Spark is not installed, or there is no Java that can.
    """
    from rmqtool.engine import require_spark

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
    from rmqtool.jit import ROOMS_WITH_KERNELS

    for room in ROOMS_WITH_KERNELS:
        package = importlib.import_module(f"rmqtool.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


COMMANDS = {"warmup": warmup_command}
