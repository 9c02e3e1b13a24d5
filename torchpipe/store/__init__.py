"""Tokenised samples on the disk: written once in shards, memory-mapped by every rank and worker."""

from torchpipe.store.array_file import Verify
from torchpipe.store.build import build_store
from torchpipe.store.manifest import Manifest, publish_store, read_manifest, shard_folder
from torchpipe.store.sft_recipe import SFTRecipe
from torchpipe.store.shard import Shard, open_shard, write_shard
from torchpipe.store.shard_data import ShardData
from torchpipe.store.token_store import TokenStore

__all__ = [
    "Manifest",
    "SFTRecipe",
    "Shard",
    "ShardData",
    "TokenStore",
    "Verify",
    "build_store",
    "open_shard",
    "publish_store",
    "read_manifest",
    "shard_folder",
    "write_shard",
]
