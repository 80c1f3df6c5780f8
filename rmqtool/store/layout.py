"""Findings about names, sizes and places: level 0 of ``verify``, which reads no contents."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.findings import Finding, FindingCode, Severity, Structure, codes
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS
from rmqtool.formats.index import HEADERS
from rmqtool.io import FileKind, Location
from rmqtool.javacompat import parse_long
from rmqtool.store.broker_conf import Origin, Setting
from rmqtool.store.broker_json import ConfigFileError, ConfigSource, batch_queue_topics, topic_names
from rmqtool.store.files import TREE_DEPTH, QueueFiles
from rmqtool.store.geometry import Geometry, own_geometry
from rmqtool.store.kinds import QUEUE_KINDS, PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.places import Feature, compaction_findings
from rmqtool.store.segments import NAME_DIGITS, FileGap, FileQueue, StoreFile, Stray, denied_finding, label_of
from rmqtool.store.twins import missing_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.store.root import Store


_WINDOW = 1 << 20


def index_findings(store: Store) -> Iterator[Finding]:
    """Yield the findings about the index files; `EnvironmentFailureError` if one cannot be read."""
    try:
        strays = store.index_strays
    except DeniedError as failure:
        yield denied_finding(failure, store.base)
        return
    for stray in strays:
        yield _index_stray(store, stray)
    files, denied = _readable(store.index_files)
    yield from denied
    if not files:
        return
    used = {file.label: file for file in files if _item_count(file) > 0}
    given, origin = store.settings.index_geometry, store.settings["maxHashSlotNum"].origin
    if origin is not Origin.DEFAULT:
        yield from _division_findings(given, files, list(used.values()), is_given=origin is Origin.GIVEN)
    elif used:
        yield _unproven(next(iter(used.values())), given.size_bytes)
    for file in files:
        if file.label not in used:
            yield from _unused(
                file, is_read=origin is not Origin.DEFAULT or file.size_bytes == given.size_bytes
            )


def _index_stray(store: Store, stray: Stray) -> Finding:
    """Return the finding about a stray (``IndexService#load``, 4.9.8, 5.3.3)."""
    text, severity, effect = f"{stray.label} {stray.reason}", None, None
    if parse_long(stray.name) is None:
        effect = "Skips it."
    elif stray.is_directory:
        effect = "Loads neither it nor the index files after it."
        if store.settings.of_all_candidates(lambda release: release.refuses_unreadable_index):
            severity, effect = Severity.ERROR, _REFUSES
    return Finding(
        code=codes.IX_STRAY,
        file=stray.label,
        message=text,
        severity_override=severity,
        effect_override=effect,
    )


def _readable(files: Iterable[StoreFile]) -> tuple[list[StoreFile], list[Finding]]:
    readable, denied = [], []
    for file in files:
        try:
            file.read_at(0, 1, [])
            readable.append(file)
        except DeniedError as failure:
            denied.append(Finding(code=codes.IO_DENIED, file=file.label, message=failure.reason))
    return readable, denied


def _unused(file: StoreFile, *, is_read: bool) -> Iterator[Finding]:
    """Yield the finding of a file without items, of which with ``is_read`` later checks read the rest."""
    position = None if file.size_bytes < HEADERS.size else _first_byte(file, HEADERS.size)
    if position is None and file.size_bytes >= HEADERS.size:
        yield Finding(code=codes.IX_UNUSED, file=file.label)
    elif not is_read or position is None:
        text = "is too short for a header" if position is None else f"is not zero from {position} on"
        message = f"{file.label} {text}, and its header counts no items: they are lost"
        yield Finding(code=codes.IX_COUNT, file=file.label, position=position or 0, message=message)


def _first_byte(file: StoreFile, start: int) -> int | None:
    """Return the position of the first byte that is not zero; holes of a sparse file are skipped."""
    position = start
    while (position := file.next_written(position)) < file.size_bytes:
        data = file.read_at(position, _WINDOW, [])
        if not data:
            break
        if data.count(0) != len(data):
            return position + len(data) - len(data.lstrip(b"\0"))
        position += len(data)
    return None


def _division_findings(
    given: Geometry, files: Sequence[StoreFile], used: Sequence[StoreFile], *, is_given: bool
) -> Iterator[Finding]:
    """Yield where the division of files is not the given one.

    A size that follows from that is not reported again. With ``is_given``, the user gave it. Else files
    proved it, and files of the same size are not examined, as a proof may take the whole of a damaged file.
    """
    doubtful = [file for file in used if is_given or file.size_bytes != given.size_bytes]
    own = [(file, found) for file in doubtful if (found := own_geometry(file, given)) is not None]
    geometries = {geometry for _, geometry in own}
    if len(own) > 1 and len(own) == len(used) and len(geometries) == 1:
        yield _divided(given, *own[0], "all index files with items have")
    else:
        for file, geometry in own:
            yield _divided(given, file, geometry, f"{file.label} has")
    sizes = {given.size_bytes, *(geometry.size_bytes for geometry in geometries)}
    wrong = [file for file in files if file.size_bytes not in sizes]
    if len(wrong) > 1 and len(wrong) == len(files) and len({file.size_bytes for file in files}) == 1:
        size = given.size_bytes
        text = f"all {len(files)} index files have {files[0].size_bytes} bytes, the settings require {size}"
        yield replace(_wrong_size(codes.IX_SIZE, size, files[0]), message=text)
    else:
        for file in wrong:
            yield _wrong_size(codes.IX_SIZE, given.size_bytes, file)


def _divided(given: Geometry, file: StoreFile, own: Geometry, which: str) -> Finding:
    message = (
        f"{which} {own.slots} slots and {own.items} items, not {given.slots} and {given.items}; read by that"
    )
    return Finding(
        code=codes.IX_GEOMETRY, file=file.label, expected=given.slots, observed=own.slots, message=message
    )


def _unproven(file: StoreFile, size: int) -> Finding:
    """Return the finding that no file proves its division, worse if its size excludes the default, too."""
    if file.size_bytes == size:
        message = f"no contents prove how {file.label} is divided; the default for its size is assumed"
        return Finding(code=codes.IX_GEOMETRY, file=file.label, observed=file.size_bytes, message=message)
    message = (
        f"{file.label} has {file.size_bytes} bytes, and its contents fit no number of slots: it is damaged,"
        " and cannot be read without maxHashSlotNum and maxIndexNum"
    )
    return Finding(
        code=codes.IX_GEOMETRY,
        file=file.label,
        expected=size,
        observed=file.size_bytes,
        message=message,
        severity_override=Severity.ERROR,
    )


def _item_count(file: StoreFile) -> int:
    header = HEADERS.decode(file.read_at(0, HEADERS.size, []))
    return 0 if header is None else header.index_count - 1


def layout_findings(store: Store, beside: Iterable[Finding] = ()) -> Iterator[Finding]:
    """Yield the layout findings of a store, structure by structure, those of files ``beside`` second."""
    yield from _root_findings(store)
    yield from beside if store.kind is PathKind.STORE else ()
    yield from _commitlog_findings(store)
    for kind in QUEUE_KINDS:
        yield from _queue_tree_findings(store, kind)
    yield from index_findings(store)
    yield from _checkpoint_findings(store)


def log_file_findings(store: Store) -> Iterator[Finding]:
    """Yield the findings about the commit log's directory and its files' sizes, but not about gaps."""
    for finding in _commitlog_findings(store):
        if finding.code is not codes.CL_GAP:
            yield finding


def _root_findings(store: Store) -> Iterator[Finding]:
    if store.kind is not PathKind.STORE:
        if not store.place.is_file and store.kind in {PathKind.COMMITLOG, *QUEUE_KINDS, PathKind.INDEX}:
            of_queues = store.kind is PathKind.CONSUMEQUEUE
            yield from (
                _feature(feature)
                for feature in store.unread
                if of_queues or Deed.READ_LOG not in feature.layout.can
            )
        return
    yield from map(_feature, store.features)
    for root in store.roots.values():
        for path in root.paths:
            if path.name != "checkpoint" and path.kind() not in {None, FileKind.DIRECTORY}:
                yield _wrong_place(path, store.base)
    for place in (store.abort, store.lock):
        if place is not None and not place.is_regular():
            yield _wrong_place(place, store.base)
    if store.abort is not None:
        yield Finding(code=codes.ST_ABORT, file="abort")
    yield from _doubts(store)
    if store.root is not None:
        yield from compaction_findings(store.root)


def _feature(feature: Feature) -> Finding:
    label, unread = feature.label, feature.unread
    return Finding(code=feature.code, file=label, message=feature.sentence, structure_override=unread)


def _doubts(store: Store) -> Iterator[Finding]:
    """Yield the doubts about inferred sizes, each once for all its settings.

    IX-GEOMETRY covers an index that proves no division, where a default is taken.
    """
    doubts: dict[str, list[Setting]] = {}
    for setting in store.settings.used_sizes():
        if setting.doubt and setting.origin is not Origin.DEFAULT:
            doubts.setdefault(setting.doubt, []).append(setting)
    for doubt, settings in doubts.items():
        taken = " and ".join(f"{setting.name}={setting.value}" for setting in settings)
        message = f"{taken} {'is' if len(settings) == 1 else 'are'} in doubt: {doubt}"
        yield Finding(code=codes.ST_DOUBT, observed=taken, message=message)


def _wrong_place(path: Location, base: Location) -> Finding:
    label, observed = label_of(path, base), str(path.kind() or FileKind.LOST)
    return Finding(code=codes.ST_PATH, file=label, observed=observed, message=f"{label} is {observed}")


def _commitlog_findings(store: Store) -> Iterator[Finding]:
    queue = store.log
    if store.kind is PathKind.STORE and not queue.segments:
        yield from _no_log_findings(store)
    if store.place.is_file and store.kind is PathKind.COMMITLOG:
        return  # one file on its own may be any part of a log
    size = store.settings.commitlog_file_size
    yield from _file_queue_findings(
        store, queue, size, "mappedFileSizeCommitLog", codes.CL_STRAY, codes.CL_GAP
    )


def _no_log_findings(store: Store) -> Iterator[Finding]:
    """Yield the finding that there is no log: damage, unless nothing was ever derived from one."""
    if any(feature.code is codes.ST_DLEDGER for feature in store.features):
        return  # the log exists, and its finding has been yielded
    directories = ", ".join(str(path) for path in store.commitlog.directories)
    message = f"no commit log file in {directories}"
    derived = store.index_files or any(_has_queues(store, kind) for kind in QUEUE_KINDS)
    if derived or (store.checkpoint is not None and _log_time_ms(store.checkpoint) > 0):
        yield Finding(code=codes.ST_NO_COMMITLOG, message=message)
        return
    message += ", and nothing that was derived from one: the store is new, or its log lies elsewhere"
    yield Finding(code=codes.ST_NO_COMMITLOG, message=message, severity_override=Severity.WARNING)


def _has_queues(store: Store, kind: PathKind) -> bool:
    with suppress(EnvironmentFailureError):  # IO-DENIED reports it
        return any(map(_has_files, store.queues(kind)))
    return False


def _has_files(queue: QueueFiles) -> bool:
    with suppress(DeniedError):  # IO-DENIED reports it
        return bool(len(queue.files))
    return False


def _file_queue_findings(
    store: Store, queue: FileQueue, size: int, setting: str, stray: FindingCode, gap: FindingCode
) -> Iterator[Finding]:
    """Yield strays, wrong sizes and gaps of one file queue.

    A given size that no file has is one contradiction of the settings, not an error of every file.
    """
    for entry in queue.strays:
        yield _stray(store, queue, entry, stray)
    wrong = [file for file in queue if file.size_bytes != size]
    if wrong and len(wrong) == len(queue) and store.settings[setting].origin is Origin.GIVEN:
        yield _contradiction(setting, size, wrong[0])
        size = wrong[0].size_bytes  # so that it causes no gaps
    else:
        starts = {file.start for file in queue}
        for file in wrong:
            yield _wrong_size(stray, size, file, is_joined=file.start + size in starts)
    one_path = gap is codes.CL_GAP and any(feature.code is codes.ST_ONE_PATH for feature in store.unread)
    for missing in () if one_path else queue.gaps(size):
        yield _gap(gap, missing)
    if stray is codes.CQ_STRAY:
        yield from _misnamed(queue, size)


def _misnamed(queue: FileQueue, size: int) -> Iterator[Finding]:
    for file in queue:
        if file.start % size:
            text = f"{file.label} is named by {file.start}, which is not a multiple of the file size, {size}"
            yield Finding(
                code=codes.CQ_FILE_NAME, file=file.label, expected=size, observed=file.start, message=text
            )


def _stray(store: Store, queue: FileQueue, entry: Stray, code: FindingCode) -> Finding:
    """Return the finding about a stray; a kill during its creation leaves an empty last file.

    5.1.3+ deletes that at start, whatever its name (``MappedFileQueue#doLoad``, 5.3.3), and 5.1.0+ skips a
    directory; older brokers refuse to start.
    """
    text = f"{entry.label} {entry.reason}"
    if entry.served:
        return _twin(entry, text)
    if store.settings.of_all_candidates(lambda release: release.deletes_empty_last_file):
        names = [file.path.name for file in queue] + [other.name for other in queue.strays]
        if entry.is_directory:
            text += ": a start skips it, one of a broker before 5.1.0 fails"
            return _harmless(code, entry, text, Severity.INFO, "Skips it.")
        if entry.size_bytes == 0 and entry.name == max(names):
            text += ": left by a kill" if entry.name.isdecimal() else ", and the last of its directory"
            text += "; 5.1.3 and later delete it at start, older brokers do not start"
            return _harmless(code, entry, text, Severity.WARNING, "Deletes it at start.")
    size = store.settings.commitlog_file_size
    if code is codes.CL_STRAY and (start := missing_file(entry, store.base, queue, size)) is not None:
        return _misnamed_log(entry, text, f"{start:0{NAME_DIGITS}d}", size)
    if code is codes.CL_STRAY and not entry.name.isdecimal():
        return _foreign(entry, text)
    return Finding(code=code, file=entry.label, message=text, effect_override=_REFUSES)


_REFUSES = "Does not start."
_MISORDERED = "Loads it in the order of names as text, and looks for its messages in another file."
_OF_QUEUES = {codes.CL_STRAY, codes.CQ_STRAY}
_CUT_LOG = (
    "Restore it from a replica or a backup: moving it out loses its records. If it is the last file and too"
    " short, extend it with zeros."
)


def _harmless(code: FindingCode, entry: Stray, text: str, severity: Severity, effect: str) -> Finding:
    return Finding(
        code=code,
        file=entry.label,
        message=text,
        severity_override=severity,
        effect_override=effect,
        remedy_override="None needed.",
    )


def _twin(entry: Stray, text: str) -> Finding:
    """Return the finding about a file of the name of another, in another directory of the log.

    Java: ``MultiPathMappedFileQueue#load``, ``CommitLog#recoverNormally`` (4.9.8 to 5.5.1).
    """
    is_spare = entry.own_records == 0
    remedy = "Move it out of the directory before the next start: rmqtool repair STORE"
    keep = "Keep both, and start no broker before you know which is the log's: rmqtool dump FILE shows each"
    return Finding(
        code=codes.CL_STRAY,
        file=entry.label,
        message=text,
        structure_override=Structure.STORE if is_spare else None,
        remedy_override=f"{remedy if is_spare else keep}.",
        effect_override=f"Loads both, and serves {entry.served}; recovery reads one after the other, and can"
        " end the log at the second.",
    )


def _misnamed_log(entry: Stray, text: str, name: str, size: int) -> Finding:
    """Return the finding about a file of the log, ``name``, that lies under another name."""
    is_whole = entry.size_bytes == size
    again = f"It is not whole, or packed: copy or unpack it again, as {name}; until then keep it."
    return Finding(
        code=codes.CL_MISNAMED,
        file=entry.label,
        expected=name,
        observed=entry.name,
        message=f"{text}, and is the log's file {name}, which is missing",
        remedy_override="Put it back under that name, on a copy of the store first." if is_whole else again,
        effect_override=_MISORDERED if is_whole and entry.name.isdecimal() else _REFUSES,
    )


def _foreign(entry: Stray, text: str) -> Finding:
    """Return the finding about a file that never belonged to the log, so nothing of the log is lost.

    ``MappedFileQueue#doLoad`` (4.5.0 to 5.5.1) gives up at its size, ``Long#parseLong`` at its name.
    """
    return Finding(
        code=codes.CL_STRAY,
        file=entry.label,
        message=f"{text}: a stray file, which stops the start; the log itself is not concerned",
        structure_override=Structure.STORE,
        remedy_override="Move it out of the directory before the next start.",
        effect_override=_REFUSES,
    )


def _contradiction(setting: str, size: int, file: StoreFile) -> Finding:
    text = f"{setting} was given as {size} bytes, but {file.label} and all its siblings have other sizes"
    return Finding(
        code=codes.ST_SETTINGS, file=file.label, expected=size, observed=file.size_bytes, message=text
    )


def _wrong_size(code: FindingCode, size: int, file: StoreFile, *, is_joined: bool = False) -> Finding:
    """Return the finding about a file of another size; ``is_joined`` if the next begins at its end."""
    text = f"{file.label} has {file.size_bytes} bytes instead of {size}"
    remedy = _CUT_LOG if code is codes.CL_STRAY else None
    if code is codes.CL_STRAY and is_joined and file.size_bytes > size:
        text += ", where the next file begins"
        remedy = (
            f"No broker read the bytes after {size}. Keep a copy, then cut the file: truncate -s {size} FILE"
        )
    effect = _REFUSES if code in _OF_QUEUES else None
    return Finding(
        code=code,
        file=file.label,
        expected=size,
        observed=file.size_bytes,
        message=text,
        effect_override=effect,
        remedy_override=remedy,
    )


def _gap(code: FindingCode, gap: FileGap) -> Finding:
    if gap.found > gap.expected:
        text = (
            f"{gap.found - gap.expected} bytes are missing between {gap.after.label} and {gap.before.label}"
        )
    else:
        text = f"{gap.before.label} begins inside of {gap.after.label}"
    return Finding(
        code=code,
        file=gap.before.label,
        length=max(0, gap.found - gap.expected),
        physical_offset=gap.expected if code is codes.CL_GAP else None,
        expected=gap.expected,
        observed=gap.found,
        message=text,
    )


def _queue_tree_findings(store: Store, kind: PathKind) -> Iterator[Finding]:
    root = store.read_root(kind)
    if root is None or root.is_file:
        return
    contradictions: list[Finding] = []
    simple = _simple_topics(store) if kind is PathKind.BATCHCONSUMEQUEUE else frozenset()
    queues = 0
    try:
        topics = store.topics(kind) if root.depth == TREE_DEPTH else [None]
    except DeniedError as failure:
        yield denied_finding(failure, store.base)
        return
    for topic in topics:
        try:
            for queue in store.queues(kind, topic):
                queues += _has_files(queue)
                for finding in _queue_findings(store, queue, simple):
                    if finding.code is codes.ST_SETTINGS:
                        contradictions.append(finding)
                    else:
                        yield finding
        except DeniedError as failure:
            yield denied_finding(failure, store.base)
    if 1 < queues == len(contradictions):
        message = f"{contradictions[0].message}; the same is true of all {queues} queues"
        contradictions = [replace(contradictions[0], message=message)]
    yield from contradictions
    with suppress(EnvironmentFailureError):  # reported above
        for stray in store.queue_strays(kind):
            yield Finding(code=codes.CQ_STRAY_DIR, file=stray.label, message=f"{stray.label} {stray.reason}")


def _queue_findings(store: Store, queue: QueueFiles, simple: frozenset[str]) -> Iterator[Finding]:
    name, size = {
        PathKind.CONSUMEQUEUE: ("mappedFileSizeConsumeQueue", store.settings.consumequeue_file_size),
        PathKind.CONSUMEQUEUE_EXT: (
            "mappedFileSizeConsumeQueueExt",
            store.settings.consumequeue_ext_file_size,
        ),
        PathKind.BATCHCONSUMEQUEUE: (
            "mapperFileSizeBatchConsumeQueue",
            store.settings.batchconsumequeue_file_size,
        ),
    }[queue.kind]
    label = label_of(queue.directory, store.base)
    if queue.kind is PathKind.CONSUMEQUEUE and queue.topic in store.settings.batch_topics:
        yield Finding(code=codes.CQ_TYPE, file=label, topic=queue.topic, queue_id=queue.queue_id)
    if queue.topic in simple:
        yield Finding(
            code=codes.CQ_TYPE,
            file=label,
            topic=queue.topic,
            queue_id=queue.queue_id,
            message=f"config/topics.json does not say that topic {queue.topic} has batch queues",
            remedy_override=f'Put "{queue.topic}" with the attribute queue.type=BatchCQ into'
            " config/topics.json before the next start.",
        )
    try:
        yield from _file_queue_findings(store, queue.files, size, name, codes.CQ_STRAY, codes.CQ_GAP_FILE)
    except DeniedError as failure:
        yield denied_finding(failure, store.base)


def _simple_topics(store: Store) -> frozenset[str]:
    """Return the topics that ``topics.json``, if it can be read, gives simple queues."""
    try:
        document = ConfigSource(store.root).document("topics.json")
    except ConfigFileError:
        return frozenset()
    return topic_names(document) - batch_queue_topics(document)


def _checkpoint_findings(store: Store) -> Iterator[Finding]:
    root = store.roots.get(PathKind.CHECKPOINT)
    if root is None:
        return
    path, label = root.paths[0], label_of(root.paths[0], store.base)
    file = store.checkpoint
    if file is None:
        yield Finding(code=codes.CP_MISSING if path.status() is None else codes.CP_STRAY, file=label)
        return
    if file.size_bytes != CHECKPOINT_FILE_SIZE:
        yield _wrong_size(codes.CP_SIZE, CHECKPOINT_FILE_SIZE, file)
    try:
        if _log_time_ms(file) == 0:
            yield Finding(code=codes.CP_ZERO, file=label)
    except DeniedError as failure:
        yield denied_finding(failure, store.base)


def _log_time_ms(checkpoint: StoreFile) -> int:
    return CHECKPOINTS.padded(checkpoint.read_at(0, CHECKPOINTS.size, [])).physic_msg_timestamp_ms
