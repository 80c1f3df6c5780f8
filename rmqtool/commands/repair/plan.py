"""Plan of a repair: from findings and diagnoses to steps, and to parts that are left alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.commands.repair import (
    RESTORE_LOG,
    LeftAlone,
    Rebuilt,
    RepairAction,
    RepairPart,
    RepairRequest,
    RepairStep,
)
from rmqtool.derived.positions import loaded_checkpoint
from rmqtool.doctor import CONFIG_KINDS
from rmqtool.doctor.diagnose import diagnose
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import FailOn, Findings, Severity, Structure, codes, status_of
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS, CheckpointFields
from rmqtool.io import FileKind, Location
from rmqtool.recovery.loaded import checkpoint_of_end
from rmqtool.store import PathKind, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.doctor.choices import ConfigChoice, ConfigDiagnosis


def checkpoint_bytes(store: Store) -> bytes | None:
    """Return a checkpoint with the times of the last record; None for a log without any."""
    fields = checkpoint_of_end(store, _present(store))
    return None if fields is None else CHECKPOINTS.encode(fields).ljust(CHECKPOINT_FILE_SIZE, b"\0")


def _present(store: Store) -> CheckpointFields:
    file = store.checkpoint
    if file is None or file.size_bytes != CHECKPOINT_FILE_SIZE:
        return loaded_checkpoint(None)
    try:
        return loaded_checkpoint(file)
    except EnvironmentFailureError:
        return loaded_checkpoint(None)


QUEUES = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
DERIVED = {RepairPart.QUEUES: QUEUES, RepairPart.INDEX: ("index",)}
_STRUCTURES = {RepairPart.QUEUES: Structure.CONSUMEQUEUE, RepairPart.INDEX: Structure.INDEX}
_CHECKPOINT = frozenset({codes.CP_AHEAD, codes.CP_MISSING, codes.CP_SIZE, codes.CP_STRAY})
_PROOF = (
    "the present ones prove messages beyond the log's end, and those made would not: restore the log's"
    " missing files from a replica or a backup, or rmqtool salvage STORE --out DIR"
)
_SALVAGE = "to turn what is left into a new store: rmqtool salvage STORE --out DIR; a replica may have more"


@dataclass
class Plan:
    """Steps of a repair, in order, and the parts that stay; ``texts`` are new files' bytes by name."""

    steps: list[RepairStep] = field(default_factory=list)
    left: list[LeftAlone] = field(default_factory=list)
    configs: tuple[ConfigDiagnosis, ...] = ()
    texts: dict[str, bytes] = field(default_factory=dict)
    rebuilt: frozenset[RepairPart] = frozenset()


def make_plan(request: RepairRequest, findings: Findings) -> Plan:
    """Plan the repair of a store from the findings of ``verify`` at its highest level; nothing is written."""
    return _Planner(request, findings).plan


class _Planner:
    def __init__(self, request: RepairRequest, findings: Findings) -> None:
        self._request, self._store, self._findings = request, request.store, findings
        self.plan = Plan()
        assert self._store.root is not None
        self._root: Location = self._store.root
        strays = {stray.label for stray in self._store.commitlog.strays}
        self._is_log_damaged = any(
            one.structure is Structure.COMMITLOG and one.severity is Severity.ERROR and one.file not in strays
            for one in findings
        )
        self._made: list[tuple[str, int, bool]] = []
        self._strays()
        complete = not self._unread() and self._derived()
        self._settings()
        self._abort(complete=complete)
        self._checkpoint(complete=complete)

    def _add(self, part: RepairPart, action: RepairAction, path: str, why: str) -> None:
        self.plan.steps.append(RepairStep(part, action, path, why))

    def _leave(self, part: RepairPart, path: str, why: str) -> None:
        self.plan.left.append(LeftAlone(part, path, why))

    def _settings(self) -> None:
        """Take the doctor's choice, or the user's; without either, report the choices."""
        unused = set(self._request.choices)
        if unused - CONFIG_KINDS.keys():
            raise UsageError(
                f"--config {min(unused - CONFIG_KINDS.keys())}: give one of {', '.join(CONFIG_KINDS)}"
            )
        if not self._request.wants(RepairPart.SETTINGS):
            return
        made = self._made if RepairPart.QUEUES in self.plan.rebuilt else ()
        unsound = [one for one in diagnose(self._store, made=made) if not one.is_sound]
        self.plan.configs = tuple(one for one in unsound if not one.denied)
        for copy in (one.denied[0] for one in unsound if one.denied):
            self._leave(RepairPart.SETTINGS, copy.file, copy.reason)
            unused -= {name for name in unused if f"config/{name}".startswith(copy.file)}
        for one in self.plan.configs:
            name = one.file.rpartition("/")[2]
            unused.discard(name)
            chosen = self._choice(one, self._request.choices.get(name))
            if chosen is not None:
                self.plan.texts[one.file] = chosen.data(self._root)
                self._put(RepairPart.SETTINGS, one.file, f"{chosen.name}: {chosen.about}")
        if unused:
            raise UsageError(f"--config {min(unused)}: config/{min(unused)} is sound or missing")

    def _choice(self, one: ConfigDiagnosis, wanted: str | None) -> ConfigChoice | None:
        links = [copy.file for copy in one.copies if self._is_reached_by_link(copy.file)]
        if links:  # its new owner could read what only the caller may
            why = f"{links[0]} is a link, or is reached by one: put the file itself in its place"
            self._leave(RepairPart.SETTINGS, one.file, why)
            return None
        if wanted is None and one.obvious:
            return one.choices[0]
        found = None if wanted is None else one.choice(wanted)
        names = ", ".join(choice.name for choice in one.choices)
        if wanted is not None and found is None:
            raise UsageError(
                f"--config {one.file.rpartition('/')[2]}={wanted}: choose from {names or 'none'}"
            )
        if found is None:
            what = f"choose its content: --config {one.file.rpartition('/')[2]}=NAME, of {names}"
            nothing = "nothing is left of it: restore it from a backup or a replica before the next start"
            self._leave(RepairPart.SETTINGS, one.file, what if names else nothing)
        return found

    def _is_reached_by_link(self, path: str) -> bool:
        return (self._root / path).real() != self._root.real() / path

    def _put(self, part: RepairPart, path: str, why: str) -> None:
        status = (self._root / path).status()
        self._add(part, RepairAction.PUT_IN if status is None else RepairAction.REPLACE, path, why)

    def _strays(self) -> None:
        """Set aside what lies in the log's directory and does not belong there; it has no records."""
        if not self._request.wants(RepairPart.STRAYS):
            return
        for stray in self._store.commitlog.strays:
            if (self._root / stray.label).kind() is None:
                self._leave(RepairPart.STRAYS, stray.label, "lies outside of the store root: move it away")
            else:
                self._add(RepairPart.STRAYS, RepairAction.SET_ASIDE, stray.label, f"it {stray.reason}")

    def _unread(self) -> bool:
        """Whether the log or queues have a form that is not read: then nothing is certain about the rest."""
        for feature in self._store.unread:
            self._leave(RepairPart.QUEUES, feature.label, f"{feature.code.title}: it is not read")
        is_controlled = self._store.confirm_offset is not None
        if is_controlled and any(map(self._is_damaged, DERIVED)):
            why = "controller mode: what replicas have not confirmed is for the broker to keep or to cut"
            self._leave(RepairPart.QUEUES, "consumequeue", why)
        return bool(self._store.unread) or is_controlled

    def _derived(self) -> bool:
        """Plan to install rebuilt parts; return whether queues and index will be complete."""
        damaged = {part for part in DERIVED if self._is_damaged(part)}
        if self._store.abort is not None and damaged:
            damaged = set(DERIVED)  # a clean start completes neither
        elif RepairPart.QUEUES in damaged:
            damaged.add(RepairPart.INDEX)  # both are of one rebuild
        wanted = {part for part in damaged if self._request.wants(part)}
        if not wanted:
            return not damaged
        refusal = self._swap_refusal(wanted)
        if refusal is not None:
            for part in sorted(wanted):
                self._leave(part, part.value, refusal)
            return False
        self.plan.rebuilt = frozenset(wanted)
        for part in sorted(wanted):
            for name in DERIVED[part]:
                if (self._root / name).kind() is not None or name == part.value:
                    self._put(part, name, "rebuilt from the log")
        return wanted == damaged

    def _is_damaged(self, part: RepairPart) -> bool:
        """Whether a part has errors; a lag is not one while ``abort`` makes the next start complete it."""
        # A repair without ``abort`` spares a broker the recovery that completes what a kill left undone.
        spares = self._store.abort is not None and self._request.wants(RepairPart.ABORT)
        least = {Severity.ERROR, Severity.WARNING} if spares else {Severity.ERROR}
        return any(one.structure is _STRUCTURES[part] and one.severity in least for one in self._findings)

    def _swap_refusal(self, parts: set[RepairPart]) -> str | None:
        """Return why queues and index must not be exchanged; None if they may."""
        if codes.CL_LOST.code in self._findings.counts:
            return _PROOF
        for feature in (*self._store.unread, *self._store.queue_databases):
            return f"{feature.sentence}, which is not rebuilt"
        for name in (name for part in parts for name in DERIVED[part]):
            if (self._root / name).kind() not in {None, FileKind.DIRECTORY} or self._is_reached_by_link(name):
                return (
                    f"{name} is not a directory of the store root itself: rebuild with --out, and install it"
                )
        defaulted = self._store.settings.assumed_sizes(parts)
        if defaulted:
            name, value = defaulted[0].name, defaulted[0].value
            return (
                f"no file shows {name}, and files of another size stop a broker: give its own with"
                f" -c broker.conf or -p {name}=N; the default, of brokers that name none, is {value}"
            )
        names = frozenset(part.value for part in parts)

        def tell(topic: str, queue_id: int, batch: bool) -> None:
            self._made.append((topic, queue_id, batch))

        return swap_refusal(self._request.rebuild(names, None, None, tell))

    def _abort(self, *, complete: bool) -> None:
        if self._store.abort is None or not self._request.wants(RepairPart.ABORT):
            return
        if self._is_log_damaged:
            is_gone = codes.ST_NO_COMMITLOG.code in self._findings.counts
            damage = f"the log is damaged: either start can cut it; {_SALVAGE}"
            why = f"there is no log: {RESTORE_LOG}" if is_gone else damage
            self._leave(RepairPart.ABORT, "abort", why)
        elif not complete:
            why = "a start completes queues and index only with it, and they are not repaired here"
            self._leave(RepairPart.ABORT, "abort", why)
        else:
            why = "log, queues and index are complete: the next start need not cut or delete anything"
            self._add(RepairPart.ABORT, RepairAction.SET_ASIDE, "abort", why)

    def _checkpoint(self, *, complete: bool) -> None:
        """Write the times of the log's end where they are missing or wrong, or the index is a new one."""
        found = [one for one in self._findings if one.code in _CHECKPOINT]
        swapped = RepairPart.INDEX in self.plan.rebuilt
        if not self._request.wants(RepairPart.CHECKPOINT) or not (found or swapped):
            return
        if self._is_log_damaged or not complete:
            if found:
                why = "its times are those of the log's end, which is unknown before the rest is repaired"
                self._leave(RepairPart.CHECKPOINT, "checkpoint", why)
            return
        if self._store.roots[PathKind.CHECKPOINT].paths[0].parent != self._root:
            return
        data = checkpoint_bytes(self._store)
        if data is not None:
            self.plan.texts["checkpoint"] = data
            why = f"{found[0].code.title}: " if found else ""
            self._put(RepairPart.CHECKPOINT, "checkpoint", f"{why}the times of the log's end")


def swap_refusal(rebuilt: Rebuilt) -> str | None:
    """Return why rebuilt parts must not be installed; None if they may."""
    if rebuilt.fewer_messages or rebuilt.fewer_entries:
        less = rebuilt.fewer_messages or rebuilt.fewer_entries
        what = "messages" if rebuilt.fewer_messages else "index entries"
        return f"a rebuild has {less:,} {what} fewer than now: consumers would lose them; {_SALVAGE}"
    if rebuilt.hidden_records:
        return f"{rebuilt.hidden_records:,} intact records are out of reach of a rebuild; {_SALVAGE}"
    if rebuilt.doubtful_settings:
        names = " and ".join(rebuilt.doubtful_settings)
        return f"{names} in doubt: give the broker's with -c broker.conf or -p NAME=VALUE"
    if rebuilt.assumed:
        name, why = next(iter(rebuilt.assumed.items()))
        return f"a rebuild rests on {name}={why}"
    if rebuilt.uncompared:
        return f"the present files cannot be compared with a rebuild: {rebuilt.uncompared[0]}"
    return None


def is_worse(before: Findings, after: Findings) -> bool:
    """Whether a store has more errors of a code, or of a structure, than before its repair.

    Gaps that a start completes while ``abort`` exists are errors without it.
    """
    counts, errors = before.counts, before.errors
    return any(number > errors.get(structure, 0) for structure, number in after.errors.items()) or any(
        number > counts.get(code, 0) for code, number in after.counts.items() if code in _error_codes(after)
    )


def _error_codes(findings: Findings) -> Iterator[str]:
    for one in findings:
        if status_of([(one.severity, one.structure)], FailOn.ERROR):
            yield one.code.code
