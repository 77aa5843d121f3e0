"""The CUDA driver behind its protocol, through NVIDIA's cuda-bindings; the only importer of them."""

from __future__ import annotations

import importlib
from typing import Any

from attendant.errors import MachineError
from serving.runtime.tensorrt.driver import Event, Recording, Stream

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_NO_TIMES = 2  # CU_EVENT_DISABLE_TIMING
_ALL_OF_IT = (1 << 64) - 1


class CudaDriver:
    """The first GPU, in the context that TensorRT uses too."""

    def __init__(self) -> None:
        """Find it.

        Raises:
            MachineError: cuda-bindings is not installed, or there is no GPU.
        """
        self._cu = _bindings()
        self._ask("cuInit", 0)
        device = self._ask("cuDeviceGet", 0)
        self._context = self._ask("cuDevicePrimaryCtxRetain", device)
        # Unless told so, the pool gives memory back to the system whenever the host waits: at every step.
        threshold = self._cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        pool = self._ask("cuDeviceGetDefaultMemPool", device)
        self._ask("cuMemPoolSetAttribute", pool, threshold, self._cu.cuuint64_t(_ALL_OF_IT))

    def enter(self) -> None:
        """See :class:`serving.runtime.tensorrt.driver.Driver`; so are all below."""
        self._ask("cuCtxSetCurrent", self._context)

    def stream(self) -> Stream:
        return Stream(int(self._ask("cuStreamCreate", _NON_BLOCKING)))

    def event(self) -> Event:
        return Event(int(self._ask("cuEventCreate", _NO_TIMES)))

    def record(self, event: Event, stream: Stream) -> None:
        self._ask("cuEventRecord", event, stream)

    def wait_for(self, stream: Stream, event: Event) -> None:
        self._ask("cuStreamWaitEvent", stream, event, 0)

    def finish(self, stream: Stream) -> None:
        self._ask("cuStreamSynchronize", stream)

    def finish_event(self, event: Event) -> None:
        self._ask("cuEventSynchronize", event)

    def allocate(self, nbytes: int, stream: Stream) -> int:
        """Memory of the device, from the driver's own pool."""
        return int(self._ask("cuMemAllocAsync", nbytes, stream))

    def free(self, address: int, stream: Stream) -> None:
        self._ask("cuMemFreeAsync", address, stream)

    def memory(self) -> tuple[int, int]:
        free, total = self._ask("cuMemGetInfo")
        return int(free), int(total)

    def pin(self, nbytes: int) -> int:
        return int(self._ask("cuMemHostAlloc", nbytes, 0))

    def unpin(self, address: int) -> None:
        self._ask("cuMemFreeHost", address)

    def zero(self, address: int, nbytes: int, stream: Stream) -> None:
        self._ask("cuMemsetD8Async", address, 0, nbytes, stream)

    def copy_in(self, device: int, host: int, nbytes: int, stream: Stream) -> None:
        self._ask("cuMemcpyHtoDAsync", device, host, nbytes, stream)

    def copy_out(self, host: int, device: int, nbytes: int, stream: Stream) -> None:
        self._ask("cuMemcpyDtoHAsync", host, device, nbytes, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: Stream) -> None:
        self._ask("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def copy_lines(
        self, target: int, target_pitch: int, source: int, source_pitch: int, nbytes: int, lines: int, stream: Stream
    ) -> None:
        cu, plan = self._cu, self._cu.CUDA_MEMCPY2D()
        plan.srcMemoryType = plan.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
        plan.srcDevice, plan.srcPitch = source, source_pitch
        plan.dstDevice, plan.dstPitch = target, target_pitch
        plan.WidthInBytes, plan.Height = nbytes, lines
        self._ask("cuMemcpy2DAsync", plan, stream)

    def begin_recording(self, stream: Stream) -> None:
        mode = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._ask("cuStreamBeginCapture", stream, mode)

    def end_recording(self, stream: Stream) -> Recording:
        graph = self._ask("cuStreamEndCapture", stream)
        ready = self._ask("cuGraphInstantiate", graph, 0)
        self._ask("cuGraphDestroy", graph)
        return Recording(int(ready))

    def replay(self, recording: Recording, stream: Stream) -> None:
        self._ask("cuGraphLaunch", recording, stream)

    def forget(self, recording: Recording) -> None:
        self._ask("cuGraphExecDestroy", recording)

    def _ask(self, function: str, *arguments: Any) -> Any:
        status, *values = getattr(self._cu, function)(*arguments)
        if status != self._cu.CUresult.CUDA_SUCCESS:
            raise MachineError(f"{function} to succeed", status.name, "look at the driver's log: `dmesg`, `nvidia-smi`")
        return values[0] if len(values) == 1 else values


def _bindings() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        remedy = "`pip install cuda-bindings`, of the major version of the driver's CUDA"
        raise MachineError("the Python package cuda-bindings", str(error), remedy) from error
