"""OUTCOMES: the state of consumers and operators after each action on a store.

The actions are a start of the store as it is, a start with another setting, ``repair``, a ``rebuild`` that is
installed, and ``salvage``. ``rmqtool.actions`` computes the outcome of each by the model of a broker's start
(``rmqtool.recovery``); no report asserts anything beside it. Here are outcomes, their order, and the
recommended one, whose command is the next step in every report.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from enum import StrEnum
from posixpath import basename
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Structure, advises_rebuild, codes, counted
from rmqtool.io.source import is_object_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqtool.findings import FindingLog


class Action(StrEnum):
    """Actions, from the one that changes least to the one that changes most."""

    START = "start"
    SETTING = "setting"
    REPAIR = "repair"
    REBUILD = "rebuild"
    SALVAGE = "salvage"


_ACTIONS = list(Action)
_IMPOSSIBLE = (2,)  # more than any harm


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of one action, for one release. Queue offsets and messages are those of file queues.

    Light queues are left out, an inner batch counts its messages. Where the broker does not start, nothing
    but ``lost`` is known.

    Attributes:
        action: its action.
        setting: of a start with another setting, ``NAME=VALUE``.
        starts: whether the broker starts then.
        forgets: files in ``config/`` in which the start finds nothing.
        served: queue offsets at which a pull delivers that queue's own whole message.
        wrong: queue offsets at which it delivers anything else.
        unserved: whole messages of the log that no offset of their queue delivers.
        unindexed: whole messages with keys that a query by none of them finds.
        lost: messages that anything in the store bears witness to and that the log no longer has.
        reused: queue offsets that were given before, and that the next messages get again.
        placeholders: messages that stand in the place of lost ones.
        recommended: whether this is the best action.
        command: command line of the next step; None where nothing has to be done.
        refused: why the action is not possible; None if it is.
        expired: of the wrong, those at units before the log's first byte, until the broker deletes them.
        spares: of a repair, why it leaves queues and index as they are.
        unless: of the recommended one, releases that may be the broker's, and with which another is better.
    """

    action: Action
    setting: str | None = None
    starts: bool = True
    forgets: tuple[str, ...] = ()
    served: int | None = None
    wrong: int | None = None
    unserved: int | None = None
    unindexed: int | None = None
    lost: int = 0
    reused: int | None = None
    placeholders: int = 0
    recommended: bool = False
    command: str | None = None
    refused: str | None = None
    expired: int = 0
    spares: str | None = None
    unless: tuple[str, ...] = ()

    @property
    def wrong_now(self) -> int:
        """Return the wrong ones but for those of expired units, which a broker deletes in the end."""
        return (self.wrong or 0) - self.expired

    @property
    def harm(self) -> tuple[int, ...]:
        """Return what is wrong with it, the gravest first; all zeros of a start that is as it should be.

        One message that salvage leaves out weighs no more than one that a start delivers in a wrong place.
        """
        wrong, unserved = self.wrong_now, self.unserved or 0
        return (
            self.refused is not None,
            not self.starts,
            len(self.forgets),
            self.lost + wrong + unserved,
            self.lost,
            wrong,
            unserved,
            self.reused or 0,
            self.unindexed or 0,
        )

    @property
    def is_advisable(self) -> bool:
        """Whether it is possible, and leaves any message to serve where there were some."""
        return self.refused is None and bool(self.served or not self.lost)

    @property
    def rank(self) -> tuple[int, ...]:
        """Return the order among actions: of equal harm, the smallest change is best."""
        return (*self.harm, _ACTIONS.index(self.action))


def best(outcomes: Iterable[Outcome]) -> Outcome | None:
    """Return the recommended one."""
    return next((outcome for outcome in outcomes if outcome.recommended), None)


def outcome_of(outcomes: Iterable[Outcome], action: Action) -> Outcome | None:
    """Return the outcome of an action."""
    return next((outcome for outcome in outcomes if outcome.action is action), None)


def is_needed(outcomes: Iterable[Outcome]) -> bool:
    """Whether anything is to be done but to start the broker."""
    chosen = best(outcomes)
    return chosen is not None and (chosen.action is not Action.START or any(chosen.harm))


def start_findings(outcomes: Sequence[Outcome], release: str) -> Iterator[Finding]:
    """Yield findings on consumers and keys after a start of the store as it is."""
    start = outcome_of(outcomes, Action.START)
    if start is None or not start.starts:
        return
    is_shown = start.wrong_now or start.unserved or (start.reused and not start.lost)  # losses have findings
    if is_shown and (words := harm_words(start)):
        yield Finding(code=codes.NS_WRONG, message=f"after its start a {release} broker {words}")
    elif start.unindexed:
        messages = counted(start.unindexed, "message", spec=",")
        message = f"after its start a {release} broker finds {messages} by no key"
        chosen = best(outcomes)
        remedy = None
        if chosen is not None and chosen.action is not Action.REPAIR:
            remedy = _KEYS[chosen.action].format(command=chosen.command, setting=chosen.setting)
        yield Finding(
            code=codes.NS_UNINDEXED,
            observed=start.unindexed,
            message=message,
            remedy_override=remedy,
        )


def outcome_words(outcome: Outcome) -> str:
    """Return the end of a sentence about a start and its deliveries; empty if nothing is wrong."""
    if not outcome.starts:
        return "ends with an error"
    lost = f"loses {counted(outcome.lost, 'message', spec=',')}" if outcome.lost else ""
    keys = f"finds {counted(outcome.unindexed, 'message', spec=',')} by no key" if outcome.unindexed else ""
    files = " and ".join(map(basename, outcome.forgets))
    return _listed(lost, *_harm(outcome), keys, f"forgets what {files} held" if files else "")


def harm_words(outcome: Outcome) -> str:
    """Return the end of a sentence about the broker: its deliveries after a start; may be empty."""
    return _listed(*_harm(outcome))


def _harm(outcome: Outcome) -> Iterator[str]:
    if outcome.wrong_now:
        yield f"delivers {counted(outcome.wrong_now, 'wrong message', spec=',')}"
    if outcome.unserved:
        yield f"never delivers {counted(outcome.unserved, 'message', spec=',')}"
    if outcome.reused:
        yield f"gives {counted(outcome.reused, 'queue offset', spec=',')} a second time"


def _listed(*parts: str) -> str:
    said = [part for part in parts if part]
    return " and ".join([", ".join(said[:-1]), said[-1]] if said[1:] else said)


def advise(findings: FindingLog, outcomes: Sequence[Outcome]) -> None:
    """Replace advice to rebuild by the recommended action, where that is another.

    Advice to compare with a replica stays everywhere.
    """
    chosen = best(outcomes)
    if chosen is None:
        return
    for finding in list(findings):
        if advises_rebuild(finding.remedy, finding.structure) and chosen.action is not Action.REBUILD:
            advice = (
                _ADVICE[chosen.action] if any(chosen.harm) or chosen.action is not Action.START else _HEALS
            )
            remedy = advice.format(command=chosen.command, setting=chosen.setting)
            findings.exchange(finding, replace(finding, remedy_override=remedy))
        elif chosen.action is Action.SALVAGE and (
            finding.structure in {Structure.COMMITLOG, Structure.START} and "replica" in finding.remedy
        ):
            remedy = f"{finding.remedy.rstrip('.')}. {_ADVICE[Action.SALVAGE].format(command=chosen.command)}"
            findings.exchange(finding, replace(finding, remedy_override=remedy))


_HEALS = "None needed: the next start serves all messages."
_ADVICE = {
    Action.START: "Compare with a replica first: no action serves more messages than the next start does.",
    Action.SETTING: "Start the broker with {setting}: {command}",
    Action.REPAIR: "Repair the store in place: {command}",
    Action.SALVAGE: "To turn what is left into a new store: {command}",
}


_KEYS = {
    **_ADVICE,
    Action.START: "None: by no action do keys find more messages.",
    Action.REBUILD: "Put a rebuilt index in its place: {command}",
}


def ranked(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Return the outcomes in the order of actions, the best one marked, unless no message is left."""
    chosen = min(outcomes, key=lambda outcome: outcome.rank)
    return tuple(
        replace(outcome, recommended=outcome is chosen and outcome.is_advisable) for outcome in outcomes
    )


def agreed(outcomes: Sequence[Outcome], others: Mapping[str, Sequence[Outcome]]) -> tuple[Outcome, ...]:
    """Mark the action that does least harm with the worst of the releases that may be the broker's."""
    alike = [
        {(outcome.action, outcome.setting): outcome for outcome in theirs}
        for theirs in (outcomes, *others.values())
    ]

    def harms(outcome: Outcome) -> list[tuple[int, ...]]:
        matching = (by_action.get((outcome.action, outcome.setting)) for by_action in alike)
        return [_IMPOSSIBLE if outcome_alike is None else outcome_alike.harm for outcome_alike in matching]

    chosen = min(outcomes, key=lambda one: (max(harms(one)), one.rank))
    if not chosen.is_advisable:
        return tuple(outcomes)
    least = (min(one.harm for one in by_action.values()) for by_action in alike)
    names = (f"a {name} broker" for name in others)
    harmed = zip(("the one that is assumed", *names), harms(chosen), least, strict=True)
    unless = tuple(name for name, harm, best_of_all in harmed if harm > best_of_all)
    return tuple(
        replace(outcome, recommended=outcome is chosen, unless=unless if outcome is chosen else ())
        for outcome in outcomes
    )


class CommandLines:
    """Command lines of next steps for a store, with the arguments that give its settings.

    ``directories`` are paths that a copy of it must have; empty if that is the store alone.
    """

    def __init__(self, store: str, settings: Sequence[str] = (), directories: Sequence[str] = ()) -> None:
        self._store, self._settings, self._directories = store, tuple(settings), tuple(directories)

    def of(self, action: Action, setting: str | None = None) -> list[str]:
        """Return the words of the command of an action; before a start that does harm, that is a copy."""
        more = {
            Action.START: (),
            Action.SETTING: ("-p", setting or "", "--predict-recovery"),
            Action.REPAIR: ("--plan",),
            Action.REBUILD: ("--out", self.beside("rebuilt")),
            Action.SALVAGE: ("--out", self.beside("salvaged")),
        }[action]
        if action is Action.START:
            if self._directories:  # cp keeps links: a start on the copy would change what they lead to
                return ["tar", "-chSf", self.beside("copy.tar"), *self._directories]
            return ["cp", "-a", "--sparse=always", self._store, self.beside("copy")]
        name = "verify" if action is Action.SETTING else action.value
        return ["rmqtool", name, self._store, *self._settings, *more]

    def line(self, action: Action, setting: str | None = None) -> str:
        """Return the same for pasting."""
        return shlex.join(self.of(action, setting))

    def beside(self, ending: str) -> str:
        """Return a name beside the store, or in the working directory if the store is on no disk."""
        store = self._store
        return f"{basename(store) if is_object_url(store) else store.rstrip('/')}.{ending}"
