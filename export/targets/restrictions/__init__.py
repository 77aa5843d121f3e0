"""What a runtime's documentation says that it cannot read, one restriction an object, held to a graph one by one."""
