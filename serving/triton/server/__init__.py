"""Find, start, watch and stop a tritonserver.

installation ──► command ──► process ──► guard ──► tritonserver ──► one stub a model instance
(what is here)   (flags)     (we)        (ends everything below it when we are gone)
"""
