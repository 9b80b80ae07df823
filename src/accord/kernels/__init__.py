"""Hot loops for CUDA and for the CPU, next to the torch code that defines them."""
