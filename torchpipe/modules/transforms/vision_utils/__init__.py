"""torchtune's folder of picture functions; each stands in a module of its own name, defined in torchpipe.vision."""

__all__: list[str] = []
