"""The hot loops for CUDA and for the CPU, beside the plain torch that defines them."""
