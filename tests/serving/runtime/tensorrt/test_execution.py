"""Which contexts a runner keeps; what they do is tested with the runner."""

from serving.runtime.tensorrt import execution
from serving.runtime.tensorrt.device import Device
from serving.runtime.tensorrt.execution import Executions
from tests.serving.runtime.tensorrt.fake_driver import FakeDriver


def test_a_kind_of_run_keeps_its_context_and_the_one_unused_for_longest_makes_room(monkeypatch):
    monkeypatch.setattr(execution, "MOST", 2)
    driver = FakeDriver()
    device, made = Device(driver), []
    executions = Executions(device)

    def of(kind):
        return executions.of(kind, lambda: made.append(kind) or object())

    first = of("a")
    assert of("b") is not first and of("a") is first
    done = []
    driver.run(device.compute, lambda: done.append("a run"))
    of("c")
    assert done == ["a run"], "a context that goes may be running still"
    assert of("a") is first
    of("b")
    assert made == ["a", "b", "c", "b"]
