"""Code for CUDA rewritten for ``torch.accelerator`` or ``torch.xpu``, and the proof that it runs there."""
