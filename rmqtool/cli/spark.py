"""``spark``: what belongs to the Spark engine on clusters."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import click

from rmqtool.cli.help import Command
from rmqtool.cli.options import A_PATH
from rmqtool.cli.warmup import load_kernels
from rmqtool.columns.missing import require_library
from rmqtool.compiling import COMPILATION
from rmqtool.errors import ExitStatus
from rmqtool.report.console import Console

_MEBIBYTE = 1 << 20
_EXAMPLES = """\
# an archive for executors that have only Python
rmqtool spark pack -o rmqtool-spark.tar.gz
# the same for stores as tables, and for export
rmqtool spark pack --with-arrow -o rmqtool-spark.tar.gz
"""


@click.command("spark", cls=Command, examples=_EXAMPLES)
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
    from rmqtool.jit import cache_folder, compile_kernels

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


COMMANDS = {"spark": spark_command}
