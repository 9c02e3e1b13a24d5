"""Hostile configs: what they name is judged by where it lives, however it is spelled."""

from collections.abc import Callable
from pathlib import Path

import pytest

from torchpipe.config import ConfigError, InstantiationError, instantiate, validate

Write = Callable[[str, str], Path]

SPELLED = [
    "os.system",
    "posix.system",
    "nt.system",
    "subprocess.run",
    "builtins.eval",
    "builtins.exec",
    "builtins.__import__",
    "importlib.import_module",
    "_frozen_importlib.__import__",
    "runpy.run_path",
    "pickle.loads",
    "_pickle.loads",
    "shutil.rmtree",
    "pathlib.Path.write_text",
    "types.FunctionType",
    "operator.attrgetter",
    "functools.partial",
    "ctypes.CDLL",
    "code.interact",
    "webbrowser.open",
    "torch.os.system",
    "torch.sys.exit",
    "torch.builtins.eval",
    "torch.importlib.import_module",
    "torch.utils.data.dataloader.os.system",
    "torch.load",
    "torch.serialization.load",
    "torch.save",
    "torch.hub.load",
    "torch.hub.load_state_dict_from_url",
    "torch.utils.model_zoo.load_url",
    "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.load_inline",
    "torch.package.PackageImporter",
    "torch.jit.load",
    "torch.jit.CompilationUnit",
    "torch.distributed.run.main",
    "torch.distributed.launcher.api.elastic_launch",
    "torch.multiprocessing.spawn",
    "torch.ops.load_library",
    "torch.classes.load_library",
    "torch.cuda.CUDAPluggableAllocator",
    "torch.utils.benchmark.Timer",
    "torch.fx.graph_module._exec_with_source",
    "torch._inductor.compile",
    "torch._C.import_ir_module",
    "torch._utils._rebuild_tensor",
    "torch.storage._load_from_bytes",
    "torch.nn.Module.__init__.__globals__.get",
    "torch.nn.Linear.__class__",
    "torch.nn.Linear.__subclasses__",
    "torch.nn.Linear.mro",
    "torch.nn.modules.module.OrderedDict",
    "torch.nn.modules.module.functools.partial",
    "torch.UntypedStorage.from_file",
    "torch.FloatStorage.from_file",
    "sympy.sympify",
    "jinja2.Template",
    "jinja2.nativetypes.NativeTemplate.render",
    "pygments.lexers.load_lexer_from_file",
    "fsspec.implementations.local.LocalFileSystem",
    "safetensors.torch.save_file",
    "numpy.load",
    "numpy.save",
    "numpy.ctypeslib.load_library",
    "numpy.f2py.compile",
    "omegaconf.OmegaConf.load",
    "yaml.unsafe_load",
    "torchpipe.config.instantiate",
    "torchpipe.config.instantiate.instantiate",
    "torchpipe._dotpath.resolve",
    "torchpipe.errors.__builtins__.get",
    "torchpipe.cli.main.main",
    "torchpipe._shipped_files.Path",
    "torchpipe._sentences.sys.exit",
    "torchpipe._suggest.get_close_matches",
]

MINE = """
import ctypes, functools, importlib, io, operator, os, pathlib, subprocess, types, typing
import logging
import numpy
import torch
from importlib import import_module as bring
from os import system as run
from subprocess import Popen, check_output
from pathlib import Path as SomePath

from torchpipe.config import instantiate as build

evaluate = eval
loader = torch.load
np_loader = numpy.load
once = functools.partial(os.system, 'true')
twice = functools.partial(functools.partial(subprocess.run, ['true']))
class Sub(functools.partial): pass
thrice = Sub(os.system, 'true')
cached = functools.lru_cache(os.system)
method = SomePath('x').write_text
getter = operator.attrgetter('x')
alias = dict[str, int]
opener = io.open
function_type = types.FunctionType
wrapped = functools.wraps(os.system)(lambda *a: None)
join = str.join
bound = 'x'.join
log = logging.getLogger('mine')
space = types.SimpleNamespace(run=os.system)
table = {'run': os.system}
static = staticmethod(os.system)
caller = types.MethodType(os.system, 'true')
wrapper = 'x'.__add__

class MyPath(pathlib.PurePosixPath): pass
class MyDict(dict): pass
class Holder:
    run = os.system
    def __init__(self): self.os = os
holder = Holder()
"""

REEXPORTED = [
    "run",
    "Popen",
    "check_output",
    "bring",
    "evaluate",
    "loader",
    "np_loader",
    "once",
    "twice",
    "thrice",
    "cached",
    "method",
    "SomePath",
    "SomePath.write_text",
    "SomePath.home",
    "getter",
    "alias",
    "opener",
    "function_type",
    "wrapped",
    "join",
    "bound",
    "build",
    "log.manager.getLogger",
    "log.setLevel",
    "space.run",
    "table.get",
    "static",
    "caller",
    "MyPath.is_absolute",
    "MyDict.fromkeys",
    "MyDict.update",
    "MyDict.mro",
    "Holder.run",
    "holder.os.system",
    "os.system",
    "torch.load",
    "numpy.array",
    "ctypes.CDLL",
    "typing.Any",
]


@pytest.mark.parametrize("name", SPELLED)
def test_a_dangerous_name_is_refused(name: str) -> None:
    with pytest.raises(InstantiationError, match=f"'{name}' is refused"):
        instantiate({"_component_": name})


@pytest.mark.parametrize("name", REEXPORTED)
def test_a_re_export_is_judged_by_where_it_lives(write: Write, name: str) -> None:
    write("hostile/mod.py", MINE)
    with pytest.raises(InstantiationError, match=f"'hostile.mod.{name}' is refused"):
        instantiate({"_component_": f"hostile.mod.{name}"})


@pytest.mark.parametrize("name", ["system", "os", "eval", "__builtins__"])
def test_bare_names_are_judged_too(name: str) -> None:
    import os

    with pytest.raises(InstantiationError, match=r"is refused|Could not find"):
        instantiate({"_component_": name}, caller_globals={"system": os.system, "os": os, "__builtins__": {}})


def test_a_hostile_argument_inside_a_harmless_component_is_refused(tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    betas = [{"_component_": "os.mkdir", "path": str(proof)}, 0.9]
    with pytest.raises(InstantiationError, match=r"^betas\[0\]: _component_: 'os\.mkdir' is refused"):
        instantiate({"_component_": "torch.optim.AdamW", "betas": betas}, [])
    assert not proof.exists()


OWN = """
import functools, pathlib, contextlib, enum, typing, subprocess
import torch
def helper(x=1): return x
part = functools.partial(helper, 2)
nested = functools.partial(part)
cached = functools.cache(helper)
class OwnPath(pathlib.PurePosixPath): pass
class OwnDict(dict):
    def total(self): return 7
    @classmethod
    def made(cls): return cls(a=1)
class Call:
    def __call__(self): return 'called'
    def go(self): return 'gone'
    @staticmethod
    def still(): return 'still'
call = Call()
class Kind(enum.Enum):
    A = 1
    @classmethod
    def first(cls): return cls.A
@contextlib.contextmanager
def manager(): yield 1
T = typing.TypeVar('T')
class Generic(typing.Generic[T]): pass
concrete = Generic[int]
sgd = functools.partial(torch.optim.SGD, lr=1.0)
run = lambda: 'mine'
"""


@pytest.mark.parametrize(
    "name",
    """helper part nested cached OwnPath OwnDict OwnDict.made Call call call.go Call.still Kind.first manager Generic
    concrete run""".split(),  # noqa: SIM905
)
def test_a_users_own_things_are_allowed(write: Write, name: str) -> None:
    write("own/mod.py", OWN)
    instantiate({"_component_": f"own.mod.{name}"})


@pytest.mark.parametrize(
    "name",
    """torch.optim.AdamW torch.nn.CrossEntropyLoss torch.nn.Linear torch.nn.functional.gelu torch.sum torch.randn
    torch.tensor torch.Generator torch.device torch.manual_seed torch.utils.data.DataLoader torch.special.expm1
    torch.utils.data.default_collate torch.optim.lr_scheduler.CosineAnnealingLR torch.nn.init.xavier_uniform_
    torch.linalg.norm torch.fft.fft torch.amp.GradScaler numpy.array numpy.add numpy.random.default_rng numpy.float32
    safetensors.safe_open datasets.load_dataset tokenizers.Tokenizer.from_file PIL.Image.open
    torchpipe.errors.DataError""".split(),  # noqa: SIM905
)
def test_libraries_public_things_are_allowed(name: str) -> None:
    from torchpipe._dotpath import resolve

    assert callable(resolve(name))


def test_only_the_calling_code_can_opt_in(tmp_path: Path) -> None:
    config = {"_component_": "os.path.join", "a": "x"}
    with pytest.raises(InstantiationError, match="is refused"):
        instantiate({**config, "allow_unsafe": True})
    assert instantiate({"_component_": "os.path.join"}, "a", "b", allow_unsafe=True) == "a/b"


def test_a_users_file_named_as_a_standard_module_is_told_to_be_renamed(write: Write) -> None:
    write("queue.py", "def mine(): pass\n")
    with pytest.raises(InstantiationError, match=r"'queue' is part of Python's standard library.*rename it"):
        instantiate({"_component_": "queue.mine"})


def test_another_packages_module_is_not_a_way_through(write: Write) -> None:
    write("through/mod.py", "import torch\n")
    with pytest.raises(InstantiationError, match="reaches into another package's module, torch, by way of 'through'"):
        instantiate({"_component_": "through.mod.torch.nn.Linear", "in_features": 1, "out_features": 1})


@pytest.mark.parametrize("import_components", [True, False])
@pytest.mark.parametrize(
    "name", ["os.system", "torch.load", "torch.nn.Linear.__subclasses__", "torchpipe.config.parse"]
)
def test_validate_refuses_what_instantiate_refuses(name: str, import_components: bool) -> None:
    with pytest.raises(ConfigError, match="is refused"):
        validate({"a": {"_component_": name}}, import_components=import_components)
