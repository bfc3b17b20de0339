"""The CPU kernels, as functions that build TIR: one source, an instruction set chosen when a model is compiled."""
