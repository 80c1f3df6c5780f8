"""Real brokers start on the states of `tests.recovery.states` as predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.outcomes import differences, missing_units, store_files
from tests.recovery.logs import TinyLog
from tests.recovery.states import CLEAN, FILES, OTHER_CLEAN, OTHER_UNCLEAN, UNCLEAN

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

# Its index asks for a class of jars that were never published.
_RESTRICTED = {"5.3.4": {"messageIndexEnable": "false"}}


@pytest.mark.parametrize("version", jvm.VERSIONS)
@pytest.mark.parametrize("unclean", [False, True], ids=["clean", "unclean"])
def test_every_state(version: jvm.Version, unclean: bool, tmp_path: Path) -> None:
    """Log end, bounds of the queues, misplaced and missing units, index files: all are as foreseen."""
    predictions, arguments = {}, []
    for number, state in enumerate((*UNCLEAN, *OTHER_UNCLEAN) if unclean else (*CLEAN, *OTHER_CLEAN)):
        log = TinyLog(tmp_path / str(number), FILES)
        state.prepare(log)
        if unclean:
            log.crash()
        conf = tmp_path / f"{number}.conf"
        conf.write_text("\n".join(TinyLog.settings(**{**state.given, **_RESTRICTED.get(version, {})})))
        prediction = predict_recovery(open_store(log.root, broker_conf=conf), RELEASES[version])
        predictions[state.name] = log.root, conf, prediction, store_files(log.root)
        arguments += [log.root, conf]
    rows = jvm.judge(version, "recover", *arguments, timeout=300)
    found = []
    for (name, (root, conf, prediction, before)), outcome in zip(predictions.items(), rows, strict=True):
        unlike = differences(prediction, outcome, before)
        if prediction.starts and prediction.cut is not None and not unlike:
            missing = sum(queue.missing + queue.dropped for queue in prediction.queues)
            was = missing_units(root, conf, outcome, prediction.cut.physical_offset)
            unlike = [] if missing == was else [f"missing: predicted {missing}, was {was}"]
        found += [f"{name}: {text}" for text in unlike]
    assert not found, "\n".join(found)
