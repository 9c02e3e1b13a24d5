"""torchtune's path to what sets key/value caches up for a while, and takes them away."""

from torchpipe.modules.kv_cache import delete_kv_caches, disable_kv_cache, local_kv_cache

__all__ = ["delete_kv_caches", "disable_kv_cache", "local_kv_cache"]
