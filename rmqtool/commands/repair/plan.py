"""Plan of a repair: from findings and diagnoses to steps, and to parts that are left alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.actions import repairs
from rmqtool.commands.repair import (
    RESTORE_LOG,
    LeftAlone,
    Rebuilt,
    RepairAction,
    RepairPart,
    RepairRequest,
    RepairStep,
)
from rmqtool.commands.repair.merging import MERGED, MergedSetting, SettingsMerge
from rmqtool.derived.positions import loaded_checkpoint
from rmqtool.doctor import CONFIG_KINDS
from rmqtool.doctor.diagnose import diagnose
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import FailOn, Structure, codes, counted, status_of
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS, CheckpointFields
from rmqtool.outcomes import Action, best, outcome_of
from rmqtool.recovery.loaded import checkpoint_of_end
from rmqtool.store import PathKind, Store

if TYPE_CHECKING:
    from rmqtool.check import VerifyReport
    from rmqtool.doctor.choices import ConfigChoice, ConfigDiagnosis
    from rmqtool.io import Location


def _present(store: Store) -> CheckpointFields:
    file = store.checkpoint
    if file is None or file.size_bytes != CHECKPOINT_FILE_SIZE:
        return loaded_checkpoint(None)
    try:
        return loaded_checkpoint(file)
    except EnvironmentFailureError:
        return loaded_checkpoint(None)


PARTS = {RepairPart.QUEUES: Structure.CONSUMEQUEUE, RepairPart.INDEX: Structure.INDEX}
DERIVED = {part: repairs.DERIVED[structure] for part, structure in PARTS.items()}
_NEXT = "a replica may have more; rmqtool verify STORE names the next step"


@dataclass
class Plan:
    """Steps of a repair, in order, and the parts that stay; ``texts`` are new files' bytes by name.

    ``is_foreseen`` is whether the outcome of a start after it was computed.
    """

    steps: list[RepairStep] = field(default_factory=list)
    left: list[LeftAlone] = field(default_factory=list)
    configs: tuple[ConfigDiagnosis, ...] = ()
    merged: tuple[MergedSetting, ...] = ()
    texts: dict[str, bytes] = field(default_factory=dict)
    rebuilt: frozenset[RepairPart] = frozenset()
    is_foreseen: bool = False


def make_plan(request: RepairRequest, report: VerifyReport) -> Plan:
    """Plan the repair of a store from a report of ``verify`` at its highest level; nothing is written."""
    return _Planner(request, report).plan


class _Planner:
    def __init__(self, request: RepairRequest, report: VerifyReport) -> None:
        self._request, self._store, self._findings = request, request.store, report.findings
        self._outcomes = report.outcomes
        self.plan = Plan(is_foreseen=bool(report.outcomes))
        assert self._store.root is not None
        self._root: Location = self._store.root
        unsettled = repairs.is_unsettled(self._store)
        self._is_log_damaged = unsettled or repairs.is_log_damaged(self._store, self._findings)
        self._made: list[tuple[str, int, bool]] = []
        self._strays()
        complete = not (self._unread() or unsettled) and self._derived()
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
            if self._request.settings_from is not None:
                raise UsageError(f"--settings-from is for the part {RepairPart.SETTINGS}")
            return
        made = self._made if RepairPart.QUEUES in self.plan.rebuilt else ()
        asks = self._request.only or self._request.choices or self._request.settings_from is not None
        is_missing = self._store.config is None and not self._store.unread
        missing = self._root / "config" if asks and is_missing else None  # else no fault: a salvaged store
        diagnoses = diagnose(self._store, made=made, config=missing)
        merged = self._merge({diagnosis.file: diagnosis for diagnosis in diagnoses})
        unused -= merged
        unsound = [
            diagnosis for diagnosis in diagnoses if not diagnosis.is_sound and diagnosis.name not in merged
        ]
        self.plan.configs = tuple(diagnosis for diagnosis in unsound if not diagnosis.denied)
        for copy in (diagnosis.denied[0] for diagnosis in unsound if diagnosis.denied):
            self._leave(RepairPart.SETTINGS, copy.file, copy.reason)
            unused -= {name for name in unused if f"config/{name}".startswith(copy.file)}
        for config in self.plan.configs:
            unused.discard(config.name)
            chosen = self._choice(config, self._request.choices.get(config.name))
            if chosen is not None:
                self.plan.texts[config.file] = chosen.data(self._root)
                self._put(RepairPart.SETTINGS, config.file, f"{chosen.name}: {chosen.about}")
        if unused:
            raise UsageError(f"--config {min(unused)}: config/{min(unused)} is sound or missing")

    def _merge(self, diagnoses: dict[str, ConfigDiagnosis]) -> set[str]:
        """Plan to take settings of another store; return the files that get some."""
        other = self._request.settings_from
        merge = None if other is None else SettingsMerge(self._store, other)
        names = set()
        for name in MERGED if merge is not None else ():
            file = f"config/{name}"
            wanted = self._request.choices.get(name)
            assert merge is not None
            merged = merge.merged(CONFIG_KINDS[name], diagnoses.get(file), wanted)
            if merged is None:
                continue
            self.plan.merged += tuple(merged.settings)
            if not merged.is_changed:
                continue
            names.add(name)
            if self._is_left_as_link(file, file):
                continue
            if file in diagnoses and diagnoses[file].denied:
                self._leave(RepairPart.SETTINGS, file, "a copy of it may not be read")
            else:
                self.plan.texts[file] = merged.data
                self._put(RepairPart.SETTINGS, file, merged.why)
        return names

    def _choice(self, diagnosis: ConfigDiagnosis, wanted: str | None) -> ConfigChoice | None:
        if any(self._is_left_as_link(copy.file, diagnosis.file) for copy in diagnosis.copies):
            return None
        if wanted is not None:
            return diagnosis.wanted(wanted)
        if diagnosis.obvious:
            return diagnosis.choices[0]
        why = f"choose its content: --config {diagnosis.name}=NAME, of {diagnosis.names}"
        if not diagnosis.choices:
            why = "nothing is left of it: restore it from a backup or a replica before the next start"
            why += " (--settings-from OTHER)" if diagnosis.name in MERGED else ""
        self._leave(RepairPart.SETTINGS, diagnosis.file, why)
        return None

    def _is_left_as_link(self, path: str, file: str) -> bool:
        """Leave a file that a link leads to: its new owner could read what only the caller may."""
        is_link = (self._root / path).real() != self._root.real() / path
        if is_link:
            why = f"{path} is a link, or is reached by one: put the file itself in its place"
            self._leave(RepairPart.SETTINGS, file, why)
        return is_link

    def _put(self, part: RepairPart, path: str, why: str) -> None:
        status = (self._root / path).status()
        self._add(part, RepairAction.PUT_IN if status is None else RepairAction.REPLACE, path, why)

    def _strays(self) -> None:
        """Set aside what lies in the log's directory and does not belong there, if it has no own records."""
        if not self._request.wants(RepairPart.STRAYS):
            return
        counts = self._store.once(repairs.own_counts)
        for stray in self._store.commitlog.strays:
            own = counts[stray.label]
            if own != 0:
                self._leave(RepairPart.STRAYS, stray.label, _keep(own))
            elif (self._root / stray.label).kind() is None:
                self._leave(RepairPart.STRAYS, stray.label, "lies outside of the store root: move it away")
            else:
                self._add(RepairPart.STRAYS, RepairAction.SET_ASIDE, stray.label, f"it {stray.reason}")

    def _unread(self) -> bool:
        """Whether the log or queues have a form that is not read: then nothing is certain about the rest."""
        for feature in self._store.unread:
            self._leave(RepairPart.QUEUES, feature.label, f"{feature.code.title}: it is not read")
        is_controlled = self._store.confirm_offset is not None
        if is_controlled and self._damaged():
            why = "controller mode: what replicas have not confirmed is for the broker to keep or to cut"
            self._leave(RepairPart.QUEUES, "consumequeue", why)
        return bool(self._store.unread) or is_controlled

    def _derived(self) -> bool:
        """Plan to install rebuilt parts; return whether queues and index will be complete."""
        damaged = self._damaged()
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

    def _damaged(self) -> set[RepairPart]:
        takes_abort = self._request.wants(RepairPart.ABORT)
        structures = repairs.damaged_parts(self._store, self._findings, takes_abort=takes_abort)
        return {part for part, structure in PARTS.items() if structure in structures}

    def _swap_refusal(self, parts: set[RepairPart]) -> str | None:
        """Return why queues and index must not be exchanged; None if they may."""
        structures = {PARTS[part] for part in parts}
        refusal = repairs.why_not_swapped(self._store, self._findings, structures) or self._worse()
        if refusal is not None:
            return refusal
        names = frozenset(part.value for part in parts)

        def tell(topic: str, queue_id: int, batch: bool) -> None:
            self._made.append((topic, queue_id, batch))

        rebuilt = self._request.rebuild(names, None, None, tell)
        return swap_refusal(rebuilt, is_foreseen=bool(self._outcomes)) or self._without_topics()

    def _without_topics(self) -> str | None:
        """Return that topics.json, lost, has to say first which queues are batch queues; None if it does."""
        is_batch = any(batch for _, _, batch in self._made)
        if not is_batch or "topics.json" in self._request.choices:
            return None
        for diagnosis in diagnose(self._store, made=self._made):
            if diagnosis.file == "config/topics.json" and not (diagnosis.is_sound or diagnosis.obvious):
                how = f"--config topics.json=NAME, of {diagnosis.names}"
                return f"a broker loads batch queues only with it: {how}"
        return None

    def _worse(self) -> str | None:
        """Return how a start after the repair is worse than one of the store as it is; None if it is not."""
        repaired, chosen = outcome_of(self._outcomes, Action.REPAIR), best(self._outcomes)
        if repaired is None or chosen is None or self._request.choices:  # those change what a start finds
            return None
        why = repaired.refused or repaired.spares
        return None if why is None else f"{why}. Better: {chosen.command}"

    def _abort(self, *, complete: bool) -> None:
        if self._store.abort is None or not self._request.wants(RepairPart.ABORT):
            return
        if self._is_log_damaged:
            is_gone = codes.ST_NO_COMMITLOG.code in self._findings.counts
            chosen = best(self._outcomes)
            has_better = chosen is not None and chosen.action is not Action.REPAIR
            better = f"better: {chosen.command}" if chosen is not None and has_better else _NEXT
            damage = f"the log is damaged: either start can cut it; {better}"
            why = f"there is no log: {RESTORE_LOG}" if is_gone else damage
            self._leave(RepairPart.ABORT, "abort", why)
        elif repairs.keeps_abort(self._findings):
            why = "the start cuts off what a kill left at the log's end"
            self._leave(RepairPart.ABORT, "abort", why)
        elif not complete:
            why = "a start completes queues and index only with it, and they are not repaired here"
            self._leave(RepairPart.ABORT, "abort", why)
        else:
            why = "log, queues and index are complete: the next start need not cut or delete anything"
            self._add(RepairPart.ABORT, RepairAction.SET_ASIDE, "abort", why)

    def _checkpoint(self, *, complete: bool) -> None:
        """Write the times of the log's end where they are missing or wrong, or the index is a new one."""
        findings = [finding for finding in self._findings if finding.code in repairs.CHECKPOINT_CODES]
        swapped = RepairPart.INDEX in self.plan.rebuilt
        if not self._request.wants(RepairPart.CHECKPOINT) or not (findings or swapped):
            return
        if self._is_log_damaged or not complete:
            if findings:
                why = "its times are those of the log's end, which is unknown before the rest is repaired"
                self._leave(RepairPart.CHECKPOINT, "checkpoint", why)
            return
        if self._store.roots[PathKind.CHECKPOINT].paths[0].parent != self._root:
            return
        fields = checkpoint_of_end(self._store, _present(self._store))
        data = None if fields is None else CHECKPOINTS.encode(fields).ljust(CHECKPOINT_FILE_SIZE, b"\0")
        if data is not None:
            self.plan.texts["checkpoint"] = data
            why = f"{findings[0].code.title}: " if findings else ""
            self._put(RepairPart.CHECKPOINT, "checkpoint", f"{why}the times of the log's end")


def _keep(own: int | None) -> str:
    if own is None:
        return "it cannot be read here, and can be the only copy of messages"
    holds = f"it holds {counted(own, 'whole record', spec=',')} that the log lacks"
    return f"{holds}: start no broker before you know which file is the log's; rmqtool dump FILE shows each"


def swap_refusal(rebuilt: Rebuilt, *, is_foreseen: bool) -> str | None:
    """Return why rebuilt parts must not be installed; None if they may, or if a start on them is foreseen."""
    if not is_foreseen and (rebuilt.fewer_messages or rebuilt.fewer_entries):
        less = rebuilt.fewer_messages or rebuilt.fewer_entries
        what = "messages" if rebuilt.fewer_messages else "index entries"
        return f"a rebuild has {less:,} {what} fewer than now: consumers would lose them; {_NEXT}"
    if not is_foreseen and rebuilt.hidden_records:
        return f"{rebuilt.hidden_records:,} intact records are out of reach of a rebuild; {_NEXT}"
    if rebuilt.doubtful_settings:
        return repairs.doubt_words(rebuilt.doubtful_settings)
    if rebuilt.assumed:
        name, why = next(iter(rebuilt.assumed.items()))
        return f"a rebuild rests on {name}={why}"
    if rebuilt.uncompared:
        return f"the present files cannot be compared with a rebuild: {rebuilt.uncompared[0]}"
    return None


def is_worse(before: VerifyReport, after: VerifyReport) -> bool:
    """Whether the next start is worse than before the repair; by the findings if no start is foreseen.

    Gaps that a start completes while ``abort`` exists are errors without it.
    """
    was, now = (outcome_of(report.outcomes, Action.START) for report in (before, after))
    if was is not None:
        return now is not None and now.harm > was.harm
    counts, errors = before.findings.counts, before.findings.errors
    more = after.findings.errors.items()
    failing = {
        finding.code.code
        for finding in after.findings
        if status_of([(finding.severity, finding.structure)], FailOn.ERROR)
    }
    return any(number > errors.get(structure, 0) for structure, number in more) or any(
        number > counts.get(code, 0) for code, number in after.findings.counts.items() if code in failing
    )
