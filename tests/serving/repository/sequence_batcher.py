"""What Triton does with implicit states, as far as a configuration decides it, over ONNX Runtime.

States begin as ``initial_state`` says and are paired by their places among the sorted names, as core's
``sequence_state.cc`` does; a batch gathers requests of one shape; inputs and outputs lie in different memory.
"""

import numpy as np
import onnxruntime
from tritonclient.grpc import model_config_pb2 as pb

TYPES = {pb.TYPE_INT64: np.int64, pb.TYPE_BOOL: np.bool_, pb.TYPE_FP32: np.float32}


class SequenceBatcher:
    """One instance of a model, and the states of its sequences."""

    def __init__(self, config, graph):
        self.config = config
        self.session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        states = config.sequence_batching.state
        self.pairs = dict(
            zip(sorted(one.input_name for one in states), sorted(one.output_name for one in states), strict=True)
        )
        self.states = {}

    def start(self, *sequences):
        """Begin sequences anew."""
        for sequence in sequences:
            self.states[sequence] = {
                state.input_name: np.zeros(state.initial_state[0].dims, TYPES[state.data_type])
                for state in self.config.sequence_batching.state
            }

    def step(self, requests):
        """Sequence → its request's tensors, as a client sends them → sequence → the answer's tensors."""
        feeds = {}
        for tensor in self.config.input:
            rows = [self._admitted(tensor, request[tensor.name]) for request in requests.values()]
            assert len({row.shape for row in rows}) == 1, "the batcher would make two batches of these"
            feeds[tensor.name] = np.concatenate(rows)
        for name in self.pairs:
            feeds[name] = np.stack([self.states[sequence][name] for sequence in requests])
        assert feeds.keys() == {tensor.name for tensor in self.session.get_inputs()}
        names = [tensor.name for tensor in self.session.get_outputs()]
        made = dict(zip(names, self.session.run(names, feeds), strict=True))
        answers = {tensor.name for tensor in self.config.output}
        assert made.keys() == answers | set(self.pairs.values())
        for row, sequence in enumerate(requests):
            self.states[sequence] = {name: made[output][row] for name, output in self.pairs.items()}
        return {sequence: {name: made[name][row] for name in answers} for row, sequence in enumerate(requests)}

    def _admitted(self, tensor, array):
        assert array.dtype == TYPES[tensor.data_type], tensor.name
        dims = list(tensor.dims)
        assert array.ndim == len(dims) + 1, tensor.name
        assert array.shape[0] == 1
        assert all(dim in (-1, size) for dim, size in zip(dims, array.shape[1:], strict=True)), tensor.name
        return array.reshape(1) if tensor.HasField("reshape") else array
