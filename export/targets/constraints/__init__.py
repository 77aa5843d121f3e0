"""What a runtime's documentation says that it cannot read, one constraint an object, held to a graph one by one."""
