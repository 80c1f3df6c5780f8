"""The pipeline's files against the broker model's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.broker_model.reput import BrokerModel, Sizes
from tests.builders import Built, build, memory_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.dispatch.policy import DispatchPolicy


def model_of(
    files: Mapping[int, bytes], file_size: int, policy: DispatchPolicy, sizes: Sizes | None = None
) -> tuple[BrokerModel, bool]:
    """Let the model reput a log; return it and whether it stalls."""
    model = BrokerModel(policy, sizes or Sizes())
    return model, model.reput(files, file_size)


def first_differences(expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Name what is missing, superfluous or different, with the first different byte."""
    told = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    told += [f"{name} is superfluous" for name in sorted(found.keys() - expected.keys())]
    for name in sorted(expected.keys() & found.keys()):
        one, two = expected[name], found[name]
        if one != two:
            at = next(
                (i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
            )
            told.append(
                f"{name} at {at}: {one[at : at + 20].hex()} expected, {two[at : at + 20].hex()} found"
            )
    return told


def numbered(files: list[bytes]) -> dict[str, bytes]:
    """Name index files by their order, which is all that their names mean."""
    return {f"index {number}": data for number, data in enumerate(files)}


def assert_as_the_model(
    files: Mapping[int, bytes],
    file_size: int,
    policy: DispatchPolicy,
    *,
    sizes: Sizes | None = None,
    split_bytes: int = 1 << 28,
) -> Built:
    """Run the pipeline on a log and hold every file, and the way through the log, against the model's."""
    built = build(memory_log(files), file_size, policy, sizes=sizes, split_bytes=split_bytes)
    # Inner batches prove the type of their topic; a broker has it from topics.json.
    shown = policy.with_batch_topics(built.result.batch_topics)
    model, stalled = model_of(files, file_size, shown, sizes)
    assert built.result.chain.stalled == stalled
    assert first_differences(model.queue_files(), built.queues) == []
    assert first_differences(numbered(model.index_files()), numbered(built.index)) == []
    assert built.result.messages == len(model.dispatched) - stalled
    return built
