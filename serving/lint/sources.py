"""Who says what, in the words that reports print; ``core`` was read at 73aad7c (2026-06-09)."""

MEASURED = "measured on tritonserver 2.51"
VALIDATION = "core, src/model_config_utils.cc"
SEQUENCES = "core, src/sequence_batch_scheduler/"
STATES = "core, src/sequence_state.cc"
LIFECYCLE = "core, src/model_repository_manager/"
STATE_GUIDE = "server, docs/user_guide/implicit_state_management.md"
DEPLOYMENT = "server, docs/customization_guide/deploy.md"

REFUSED = "the server refuses the model, and by default does not start"
