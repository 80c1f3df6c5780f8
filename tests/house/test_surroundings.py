"""What stands around the package: the image, the workflows and the hooks do what the gate does."""

from __future__ import annotations

import re

from tests.house.readme import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
GATE = (ROOT / ".ci" / "run").read_text()


def test_the_image_is_no_root_s_and_reads_the_store_only() -> None:
    *_, last = DOCKERFILE.split("\nFROM ")
    users = re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE)
    assert [min(int(user), int(group)) > 0 for user, group in users] == [True]
    assert last.index("\nUSER ") < last.index("\nENTRYPOINT ")
    assert last.rstrip().endswith('ENTRYPOINT ["rmqtool"]\nCMD ["--help"]')
    (usage,) = re.findall(r"^# docker run (.*)$", DOCKERFILE, re.MULTILINE)
    assert {"--read-only", "--tmpfs"} < set(usage.split())
    assert re.search(r"-v \S+:/store:ro rmqtool verify /store$", usage)


def test_the_image_has_its_kernels_where_it_looks_for_them() -> None:
    built, run = re.findall(r"RMQTOOL_CACHE_DIR=(\S+)", DOCKERFILE)
    assert built == run
    assert f"rmqtool warmup && chmod -R a+rX {built}\n" in DOCKERFILE
    assert re.search(r"^COPY --from=build (\S+) \1$", DOCKERFILE, re.MULTILINE)
    assert built.startswith("/opt/rmqtool/")


def test_the_image_is_built_of_what_the_wheel_needs() -> None:
    """Nothing else is sent to the builder: no stores, no tests, no history."""
    first, *others = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in others if line.startswith("!")}
    assert first == "*"
    assert kept == {"LICENSE", "README.md", "man", "pyproject.toml", "rmqtool"}
    assert [name for name in kept if not (ROOT / name).exists()] == []


def test_every_workflow_runs_the_gate_and_may_only_read() -> None:
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").iterdir()]
    assert workflows
    for text in workflows:
        assert re.search(r"^ +run: \.ci/run$", text, re.MULTILINE)
        assert "\npermissions:\n  contents: read\n" in text
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_hooks_are_commands_of_the_gate() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = re.findall(r"^ +entry: (.*)$", hooks, re.MULTILINE)
    assert len(entries) == hooks.count("- id: ") == 4
    *checks, tests = entries
    for entry, of_the_gate in zip(
        checks, (".venv/bin/ruff check", ".venv/bin/ruff format", ".venv/bin/mypy"), strict=True
    ):
        assert entry.startswith(of_the_gate)
        assert f"\n{of_the_gate}" in GATE
    assert all((ROOT / word).is_file() for word in tests.split() if word.startswith("tests/"))
