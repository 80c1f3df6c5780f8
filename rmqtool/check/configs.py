"""State of the broker's files of settings, which the doctor reads, as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.doctor import ONLY_SHOWN, BrokerTakes, CopyState, diagnose, diagnose_timer
from rmqtool.findings import Finding, Severity
from rmqtool.findings.configs import CF_BACKUP, CF_FORGETS, CF_REFUSED, CF_TIMER
from rmqtool.findings.places import IO_DENIED
from rmqtool.findings.wording import counted
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.doctor import ConfigChoice, ConfigDiagnosis
    from rmqtool.store import Store

_CODES = {
    BrokerTakes.BACKUP: CF_BACKUP,
    BrokerTakes.NOTHING: CF_FORGETS,
    BrokerTakes.REFUSES: CF_REFUSED,
}
_GROUP_OFFSETS = "config/consumerOffset.json"


def config_findings(store: Store) -> Iterator[Finding]:
    """Yield the findings of ``config/`` of a store root; none for a part of a store."""
    if store.kind is not PathKind.STORE:
        return
    for one in diagnose(store):
        denied = [copy for copy in one.copies if copy.state is CopyState.DENIED]
        for copy in denied:
            yield Finding(code=IO_DENIED, file=copy.file, message=copy.reason)
        if not one.is_sound and not denied:
            yield _finding(one)
    timer = diagnose_timer(store)
    if timer is not None:
        again = counted(timer.again_at_most, "timed message", spec=",")
        text = f"{timer.file} is {timer.state}: the timer reads up to {again} again, and delivers those due"
        yield Finding(code=CF_TIMER, file=timer.file, observed=timer.state, message=text)


def _finding(one: ConfigDiagnosis) -> Finding:
    file = next((copy for copy in one.copies if copy.file == one.file), None)
    return Finding(
        code=_CODES[one.broker],
        file=one.file,
        length=None if file is None else file.size_bytes,
        expected="sound",
        observed="missing" if file is None else str(file.state),
        message=f"{_copies(one)}; {_broker(one)}{_next_step(one)}",
        severity_override=Severity.WARNING if one.file in ONLY_SHOWN or _may_be_new(one) else None,
    )


def _may_be_new(one: ConfigDiagnosis) -> bool:
    """Whether nothing is damaged: groups are known, but perhaps none of them has ever read."""
    return one.file == _GROUP_OFFSETS and all(copy.is_sound for copy in one.copies)


def _copies(one: ConfigDiagnosis) -> str:
    said = [
        f"{copy.file} lists nothing" if copy.is_sound and not copy.entries else str(copy)
        for copy in one.copies
    ]
    if not one.copies or one.copies[0].file != one.file:
        said = [f"{one.file} is missing", *said]
    return ", ".join(said)


def _broker(one: ConfigDiagnosis) -> str:
    if one.broker is BrokerTakes.REFUSES:
        return "a broker does not start on that"
    if one.broker is BrokerTakes.BACKUP:
        return "a broker takes the .bak"
    return f"a broker starts and forgets {one.loses}"


def _next_step(one: ConfigDiagnosis) -> str:
    if not one.choices:
        return "; nothing of it can be recovered"
    best = one.choices[0]
    return f"; {'best' if one.obvious else 'first to choose from'}: {best.name}, {_meaning(best)}"


def _meaning(choice: ConfigChoice) -> str:
    said = choice.consequences()
    if choice.missing:
        said.append(f"without {counted(len(choice.missing), 'known entry', 'known entries', spec=',')}")
    return ", ".join(said)
