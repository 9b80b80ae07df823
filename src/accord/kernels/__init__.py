"""The hot loops for CUDA and for the CPU; the plain torch that defines each stands where it is called."""
