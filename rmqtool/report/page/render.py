"""Rendering of a report as HTML."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rmqtool.report.page.charts import HEIGHT, WIDTH
from rmqtool.report.page.strip import ROW_HEIGHT
from rmqtool.report.page.view import view_of
from rmqtool.report.page.words import Clock

if TYPE_CHECKING:
    from datetime import tzinfo

    from rmqtool.commands.report.model import StoreReport
    from rmqtool.findings import FailOn

_TEMPLATE, _STYLE = "page.html.j2", "page.css"


def render_page(
    report: StoreReport, fail_on: FailOn, setting_arguments: tuple[str, ...], zone: tzinfo | None
) -> str:
    """Return the page of a report as one document without external resources.

    ``fail_on`` decides the exit status, the next command gets ``setting_arguments``;
    ``zone`` None is this machine's.
    """
    style = _packaged(_STYLE)
    environment = Environment(
        loader=FunctionLoader(_packaged),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        view=view_of(report, fail_on, setting_arguments, Clock(zone)),
        style=Markup(style),
        policy=_policy(style),
        chart={"width": WIDTH, "height": HEIGHT},
        row_height=ROW_HEIGHT,
    )


def _policy(style: str) -> str:
    """Return the Content-Security-Policy: nothing but this one style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _packaged(name: str) -> str:
    return files("rmqtool.report.page").joinpath(name).read_text(encoding="utf-8")
