"""Settings that the user gives: a broker's properties file and single properties."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.io import location_of
from rmqtool.javacompat import parse_int
from rmqtool.releases import NEWEST
from rmqtool.store.properties import parse_java_properties
from rmqtool.store.setting import CONCERNING, DEFINITIONS, Origin, Setting, packaged_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CONF_NOTE = "broker.conf"
OPTION_NOTE = "-p"

_CONTROLLED = "enableControllerMode"  # of BrokerConfig
_LARGEST_CONF = 1 << 20


class GivenSettings(dict[str, Setting]):
    """Settings of origin "given" by name.

    Where ``conf``, the broker's properties file, is given, a broker has its release's defaults for everything
    else. ``is_controlled`` is None where controller mode is not named.
    """

    conf: Path | None = None
    unknown_names: tuple[str, ...] = ()
    is_controlled: bool | None = None


def given_settings(broker_conf: Path | None, properties: Iterable[str]) -> GivenSettings:
    """Read the given settings; single ``NAME=VALUE`` texts win over the file.

    Where a broker would silently ignore the file's value, the setting is absent, as it is for the broker.
    Raises `UsageError` if the file cannot be used, or a property has no ``=``, an unknown name or a senseless
    value.
    """
    single = dict(_name_and_value(text) for text in properties)
    given, found = GivenSettings(), {}
    if broker_conf is not None:
        found = read_broker_conf(broker_conf)
        given.conf = broker_conf
        given.unknown_names = tuple(
            f"{broker_conf}: no broker reads {name}{_near(name)}" for name in found if not _is_known(name)
        )
        for name, text in found.items():
            if name in DEFINITIONS and name not in single and not _is_ignored(name, text):
                given[name] = _read(name, text, CONF_NOTE)
    for name, text in single.items():
        if name in DEFINITIONS:
            given[name] = _read(name, text.strip(), OPTION_NOTE)
    if (controlled := {**found, **single}.get(_CONTROLLED)) is not None:
        given.is_controlled = controlled.strip().lower() == "true"
    return given


def read_broker_conf(path: Path) -> dict[str, str]:
    """Read a properties file; `UsageError` if unreadable, larger than 1 MiB, or refused by Java."""
    try:
        data = location_of(path).read_head(_LARGEST_CONF + 1)
    except EnvironmentFailureError as failure:
        raise UsageError(str(failure)) from failure
    if len(data) > _LARGEST_CONF:
        raise UsageError(f"{path}: larger than 1 MiB, so it is not a broker's properties file")
    try:
        return parse_java_properties(data)
    except UsageError as failure:
        raise UsageError(f"{path}: {failure}") from failure


@cache
def known_broker_properties() -> frozenset[str]:
    """Return every property that a broker of 4.9.8 to 5.5.1 reads from its file.

    Java: the setters of BrokerConfig, BrokerIdentity, MessageStoreConfig (store and tieredstore),
    NettyServerConfig, NettyClientConfig and AuthConfig, by which ``MixAll#properties2Object`` goes, and the
    two names that ``BrokerStartup#properties2SystemEnv`` reads. ``fixtures/make/settings.py`` makes the list.
    """
    return frozenset(packaged_text("broker_properties.txt").split())


def _name_and_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise UsageError(f"-p {text!r}: expected NAME=VALUE")
    if not _is_known(name):
        raise UsageError(f"-p {text!r}: no broker has a property {name!r}{_near(name)}")
    return name, value


def _is_known(name: str) -> bool:
    return name in DEFINITIONS or name in known_broker_properties()


def _near(name: str) -> str:
    """Suggest the nearest known name; nothing if none is near."""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known_broker_properties() | DEFINITIONS.keys()), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _is_ignored(name: str, text: str) -> bool:
    """Whether Java cannot read a value of a properties file.

    ``MixAll#properties2Object`` (4.9.8 to 5.5.1) drops the exception, so the broker runs with its default. A
    setting that decides how files are read is ignored only for blanks around a number: then the files prove
    more than the text. Anything else may be meant, and is refused.
    """
    definition = DEFINITIONS[name]
    if name in CONCERNING:
        is_integer = type(definition.default(NEWEST)) is int
        return is_integer and text != text.strip() and parse_int(text.strip()) is not None
    try:
        definition.read(name, text)
    except UsageError:
        return True
    return False


def _read(name: str, text: str, source: str) -> Setting:
    return Setting(name, DEFINITIONS[name].read(name, text), Origin.GIVEN, source)
