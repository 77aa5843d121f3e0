"""What perf_analyzer's command line takes, and what it refuses of what we write.

Source: triton-inference-server/perf_analyzer at 263c5f6 (2025-12-15), src/command_line_parser.cc: ``long_options``, the
short ones of getopt_long, and the refusals of ``VerifyOptions``; docs/cli.md says what they mean.
"""

import argparse

WITH_A_VALUE = """
    max-threads sequence-length percentile data-directory shape measurement-interval concurrency-range
    latency-threshold stability-percentage max-trials input-data string-length string-data request-rate-range
    num-of-sequences request-distribution request-intervals shared-memory output-shared-memory-size service-kind
    model-signature-name grpc-compression-algorithm measurement-mode measurement-request-count
    triton-server-directory model-repository sequence-id-range ssl-grpc-root-certifications-file
    ssl-grpc-private-key-file ssl-grpc-certificate-chain-file ssl-https-verify-peer ssl-https-verify-host
    ssl-https-ca-certificates-file ssl-https-client-certificate-file ssl-https-client-certificate-type
    ssl-https-private-key-file ssl-https-private-key-type trace-level trace-rate trace-count log-frequency
    metrics-url metrics-interval sequence-length-variation bls-composing-models input-tensor-format
    output-tensor-format profile-export-file periodic-concurrency-range request-period request-parameter endpoint
    request-count warmup-request-count session-concurrency grpc-method
"""
WITHOUT = """
    streaming async sync binary-search ssl-grpc-use-ssl verbose-csv enable-mpi collect-metrics serial-sequences
    version fixed-schedule
"""
SHORT_WITH_A_VALUE, SHORT = "cumxbtpiHlrsf", "vdaz"
TYPES = {"bool": ("true", "false").__contains__, "int": int, "string": str}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise AssertionError(f"perf_analyzer would refuse it: {message}")


def parsed(command):
    """The options of a command, as perf_analyzer reads them.

    Raises:
        AssertionError: it would refuse the command.
    """
    assert command[0] == "perf_analyzer"
    parser = _Parser(allow_abbrev=False, add_help=False)
    for name in WITH_A_VALUE.split():
        parser.add_argument(f"--{name}", action="append" if name in ("request-parameter", "shape") else "store")
    for name in WITHOUT.split():
        parser.add_argument(f"--{name}", action="store_true")
    for letter in SHORT_WITH_A_VALUE:
        parser.add_argument(f"-{letter}")
    for letter in SHORT:
        parser.add_argument(f"-{letter}", action="store_true")
    options = parser.parse_args(command[1:])
    _verify(options)
    return options


def _verify(options):
    assert options.m, "the model's name must be specified"
    assert options.i in ("http", "grpc")
    assert options.i == "grpc" or not options.streaming, "streaming is only allowed with gRPC"
    assert options.i == "grpc" or not options.request_parameter, "parameters are only supported by gRPC"
    for parameter in options.request_parameter or []:
        name, value, kind = parameter.split(":")
        assert name and TYPES[kind](value) is not False
    assert not (options.concurrency_range and options.request_intervals), "one load mode"
    if options.request_count:
        callers = int((options.concurrency_range or "1").split(":")[0])
        assert int(options.request_count) >= callers > 0, "the count can not be less than the concurrency"
    assert int(options.max_trials or 1) > 0 and float(options.stability_percentage or 0) >= 0
    assert options.shared_memory in (None, "none", "system", "cuda")
