"""How worker processes start."""

from pathlib import Path

import torch.distributed as dist

from torchpipe.loading.workers import worker_context


def test_workers_are_forked_by_a_server_while_ranks_form_a_process_group(tmp_path: Path) -> None:
    assert worker_context() is None
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'ranks'}", rank=0, world_size=1)
    try:
        context = worker_context()
        assert context is not None
        assert context.get_start_method() == "forkserver"
    finally:
        dist.destroy_process_group()
