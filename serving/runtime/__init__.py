"""How an artefact is executed: one protocol, one implementation a runtime."""
