"""Which tests of a run stay in one process, and in what order.

A process takes the tests of a file, so that what they share is made once; those of all files that ask a shared server
are one group. xdist's own ``loadgroup`` does not see the ids of pytest 9.2.
"""

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SERVERS = frozenset({"shipped_server", "narrow", "server"})
END_TO_END = "tests/end_to_end"
ON_A_SHARED_SERVER = (
    *("tests/clients/test_request_stream.py", "tests/clients/test_statuses.py"),
    "tests/serving/capacity/profiling/test_measure.py",
    *(f"{END_TO_END}/test_{name}.py" for name in ("caption", "classify", "decoding", "decoding_guide", "embed")),
    *(
        f"{END_TO_END}/test_{name}.py"
        for name in (
            "embed_by_another_model",
            "explanations",
            "gateway",
            "gateway_guide",
            "gateway_hardening",
            "gateway_costs",
        )
    ),
    *(f"{END_TO_END}/test_{name}.py" for name in ("gateway_operation", "gateway_schema", "generate", "health", "load")),
    *(
        f"{END_TO_END}/test_{name}.py"
        for name in (
            *("openai_front_end", "playground", "playground_answers", "playground_guide", "playground_keys"),
            *("playground_numbers", "playground_texts"),
        )
    ),
    *(f"{END_TO_END}/test_{name}.py" for name in ("metrics_reference", "monitoring", "translate", "waiting")),
)
README = f"{END_TO_END}/test_readme.py"
# Part of an id → the group of its tests, where that is not their file.
GROUPS = {
    **dict.fromkeys(ON_A_SHARED_SERVER, "shared servers"),
    # They serve on the ports that documents name.
    f"{README}::test_quickstart": "ports of the documents",
    f"{README}::test_a_model_of_the_readers_own": "ports of the documents",
    f"{END_TO_END}/test_your_own_model.py": "ports of the documents",
    f"{END_TO_END}/test_tutorials.py": "ports of the documents",
    f"{README}::test_what_is_shown": "proofs of the README",
}
# What takes longest stands in front, so that the processes of a run end together.
FIRST = (
    *("shared servers", "ports of the documents", "proofs of the README", "tests/models/kernels/test_interpreted.py"),
    *(f"{END_TO_END}/test_imported", END_TO_END, "tests/export", "tests/models/checkpoints", "tests/serving", "tests"),
)


def group_of(nodeid: str) -> str:
    """The group of a test: all of it runs in one process."""
    return next((group for part, group in GROUPS.items() if nodeid.startswith(part)), nodeid.partition("::")[0])


def rank_of(nodeid: str) -> int:
    """When the group of a test begins: the smaller, the earlier."""
    group = group_of(nodeid)
    return next(rank for rank, first in enumerate(FIRST) if group.startswith(first))


class Scheduling(LoadScopeScheduling):
    """Hands whole groups to processes, in the order of :data:`FIRST`."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Hand on what a process that died has left to do.

        xdist also hands on the groups that it had finished, and a process that is given no test asks for no more; and
        the test that it died of, which then ends the next process.

        Returns:
            The test that it died of.
        """
        groups = self.assigned_work.pop(node)
        left = [test for tests in groups.values() for test, is_done in tests.items() if not is_done]
        if not left:
            return None
        groups[group_of(left[0])][left[0]] = True
        self.workqueue.update({name: tests for name, tests in groups.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return left[0]


def server_of(item: pytest.Item) -> str | None:
    """The shared server that a test asks, if any."""
    found = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  pytest says it nowhere else
    return next((name for name in SERVERS & found.keys() if found[name][-1].scope == "session"), None)
