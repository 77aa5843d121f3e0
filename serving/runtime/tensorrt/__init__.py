"""What TensorRT's runner stands on: the machine, the library, the driver, and memory on the device."""
