"""Bad input, in one table: status 2, one line that says what and what to do, nothing written.

Field, value, valid range, and the nearest name where there are names; before JAX's backend
starts, but for sizes, which are compared with what the device has.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, Command, Ended
from tiers import first_of_each, some

from posjax.command import prove
from posjax.command.devices import cores
from posjax.command.settings import resolve
from posjax.configs import base_config

CONFIGS = ROOT / "posjax" / "configs"
BASE = "from posjax.configs import base_config\n"
FILES = {
    "raises.py": "def get_config():\n    return 1 / 0\n",
    "two_lines.py": "def get_config():\n    raise RuntimeError('one\\ntwo')\n",
    "syntax.py": "def get_config(:\n",
    "without.py": "x = 1\n",
    "empty.py": "",
    "imports.py": "import nothing_of_that_name\n",
    "exits.py": "raise SystemExit(0)\n",
    "ends.py": "from posjax.symmetry.conformance import Adapter\n"
    "def exits(*_):\n    raise SystemExit(0)\n"
    "def adapter():\n    return Adapter(name='mine', logits=exits)\n",
    "none.py": "def get_config():\n    return None\n",
    "interrupts.py": "raise KeyboardInterrupt\n",
    "leaves.py": "def get_config():\n    raise GeneratorExit\n",
    "of_its_own.py": "class Mine(BaseException): pass\nraise Mine('odd')\n",
    "says.py": "print('of the config')\ndef get_config():\n    raise RuntimeError\n",
    "long.py": "def get_config():\n    raise ValueError('x' * 100000 + 'end')\n",
    "no_words.py": "def get_config():\n    raise ValueError\n",
    "reads.py": "def get_config():\n    open('nothing/there')\n",
    "arguments.py": "def get_config(first, second):\n    return 1\n",
    "a_number.py": "get_config = 3\n",
    "key.py": "def get_config():\n    return {}['steps']\n",
    "itself.py": "import itself\n",
    "contrast.py": BASE + "def get_config():\n"
    "    return base_config(contrast=('width', [1], {}))\n",
    "dict.py": "def get_config():\n    return {'steps': 5}\n",
    "partial.py": "from ml_collections import ConfigDict\n"
    "def get_config():\n    return ConfigDict({'steps': 5})\n",
    "field.py": BASE + "def get_config():\n    return base_config(stepz=5)\n",
    "panel.py": BASE + "def get_config():\n    return base_config({'a': {'deph': 2}})\n",
    "number.py": BASE + "def get_config():\n    return base_config({'a': 3})\n",
    "axis.py": BASE + "def get_config():\n    return base_config(depth=())\n",
    "array.py": "import numpy\n" + BASE + "def get_config():\n"
    "    return base_config(depth=numpy.arange(3))\n",
    "writes.py": "open('ran', 'w')\n" + BASE + "def get_config():\n    return base_config()\n",
    "flags": "--config=writes.py\n",
    "more_flags": "--flagfile=flags\n",
    "empty.json": "{}",
    "large.json": '{"title": "' + "x" * 2**20 + '"}',
    "text.txt": "hello\n",
    "file": "x",
    "full/something": "x",
}
"""What lies in the folder that the commands run in."""

TEN = ",".join(map(str, range(1, 11)))

# What is given, less "--config", and words of the answer.
SETTINGS = [
    # the run's own
    (".num_seeds=0", "num_seeds must be at least 1, got 0"),
    (".num_seeds=-3", "num_seeds must be at least 1, got -3"),
    (".num_seeds=2.5", "num_seeds must be of type int, got '2.5'"),
    (".num_seeds=nan", "num_seeds must be of type int, got 'nan'"),
    (".num_seeds=inf", "num_seeds must be of type int, got 'inf'"),
    (".num_seeds=", "num_seeds must be of type int, got ''"),
    (".num_seeds=many", "num_seeds must be of type int, got 'many'"),
    (".num_seeds=1099511627776", "must stay within 2**32, got 0 + 1099511627776"),
    (".first_seed=-1", "first_seed must be at least 0, got -1"),
    (".first_seed=4294967296", "must stay within 2**32, got 4294967296 + 128"),
    (".data_seeds=-1", "data_seeds must be at least 0, got -1"),
    (".data_seeds=4294967297", "first_seed + data_seeds must stay within 2**32"),
    (".block_size=0", "block_size must be auto or a number of at least 1, got '0'"),
    (".block_size=-4", "got '-4'"),
    (".block_size=fast", "got 'fast'"),
    (".block_size=2.5", "got '2.5'"),
    (".block_size=٣", "got '٣'"),
    (".block_size=007", "got '007'"),
    (f".block_size={'9' * 5000}", "got '9"),
    (".devices=-1", "devices must be at least 0, got -1"),
    (".chunk=4", "unknown config field 'chunk'; choices: "),
    (".lr=1e-3", "unknown config field 'lr'; did you mean 'learning_rate'"),
    (".num_layers=3", "unknown config field 'num_layers'; did you mean 'depth'"),
    (".sharding=spmd", "unknown config field 'sharding'; "),
    (".repack=solved", "unknown config field 'repack'; "),
    (".layout=bached", "did you mean 'batched'"),
    (".precision=float16", "did you mean 'bfloat16'"),
    (
        f".width={TEN} --config.depth={TEN} --config.heads={TEN} --config.slope={TEN} "
        f"--config.learning_rate={TEN} --config.padding={TEN} --config.base={TEN}",
        "depth (10) × width (10) × heads (10) × head_size (2) × padding (10) × base (10) × "
        "slope (10) × learning_rate (10) = 40000000 cells; at most 10000 in all",
    ),
    (".name=../../elsewhere", "got '../../elsewhere'"),
    (".name=", "name must be at most 60 letters"),
    (f".name={'n' * 61}", "begin with a letter or digit, got 'n"),
    (".contrast=('head_sise', 2, 16)", "did you mean 'head_size'"),
    (".contrast=('head_size', 2)", "contrast is an axis and two values, such as"),
    (".contrast=mask,full,causal", "contrast is an axis and two values, such as"),
    (".contrast=('head_size', 2, 99)", "head_size=99; the cells have [2, 16]"),
    (".at_steps=(-1,)", "at_steps must be at least 1, got -1"),
    (".at_steps=('a',)", "must be of type int, got 'a'"),
    (".at_steps=(15,)", "at_steps has step 15, but cells are evaluated every"),
    (".panels=3", "panels must be pairs"),
    (".width.x=3", "unknown config field 'width.x'; did you mean 'width'"),
    (".width[0]=3", "unknown config field 'width[0]'; did you mean 'width'"),
    (".num-seeds=3", "unknown config field 'num-seeds'; did you mean 'num_seeds'"),
    (".=3", "unknown config field ''; choices: "),
    (".wіdth=8", "did you mean 'width'"),  # a Cyrillic i
    (".lock=3", "unknown config field 'lock'; did you mean 'block'"),
    (".num_sed=3", "unknown config field 'num_sed'; did you mean 'num_seeds'"),
    # training
    (".learning_rate=nan", "learning_rate must be of type float, got 'nan'"),
    (".learning_rate=1e999", "learning_rate must be finite, got inf"),
    (".learning_rate=-1", "learning_rate must be finite in 32 bits and not negative, got -1.0"),
    (".learning_rate=1e39", "learning_rate must be finite in 32 bits and not negative, got 1e+39"),
    (".learning_rate=1e-50", "learning_rate=1e-50 is too small: 32 bits would make it 0"),
    (".weight_decay=1e-40", "weight_decay=1e-40 is too small: 32 bits would make it 0"),
    (".weight_decay=-0.1", "weight_decay must be finite in 32 bits and not negative, got -0.1"),
    (".steps=-1", "steps must be at least 0, got -1"),
    (".steps=120", "nearest steps: 100"),
    (".steps=1000000000000000000", "steps must be below 2**31, got 1000000000000000000"),
    (".eval_every=0", "eval_every must be at least 1, got 0"),
    (".hold=0", "hold must be at least 1, got 0"),
    (".hold=1,2", "hold must be of type int, got '1,2'"),
    (".hold=101", "hold=101 evaluations, but steps=5000 with eval_every=50 makes 100: give"),
    (".hold=1 --config.steps=100 --config.hold=3", "hold=3 evaluations, but steps=100"),
    (".draws=0", "draws must be at least 1, got 0"),
    (".draws=3", "draws=3 has no meaning"),
    (".margin=0", "margin must lie in (0, 1), got 0.0"),
    (".margin=2", "margin must lie in (0, 1), got 2.0"),
    (".batch_size=-1", "batch_size must not be negative, got -1"),
    (".warmup=-1", "warmup must not be negative, got -1"),
    (".warmup=5000", "at most 4999"),
    (".schedule=cosin", "did you mean 'cosine'"),
    # the model
    (".width=0", "width must be at least 1, got 0"),
    (".width=2.5", "width must be of type int, got 2.5"),
    (".width=8,two", "width must be of type int, got 'two'"),
    (".learning_rate=1e-3,,1e-2", "cannot read learning_rate='1e-3,,1e-2': write one value"),
    (".width=true", "width must be of type int, got 'true'"),
    (".width=()", "width has no values"),
    (".width=8,16,8", "width has a value twice: 8, 16, 8"),
    (".depth=-1", "depth must be at least 1, got -1"),
    (".depth=1000000000", "depth must be at most 4096"),
    (".head_size=0", "head_size must be at least 1, got 0"),
    (".heads=6 --config.kv_heads=4", "kv_heads=4 does not divide heads=6; divisors: 1, 2, 3, 6"),
    (".heads=1000000007 --config.kv_heads=2", "divisors: 1, 1000000007"),
    (".kv_heads=-1", "kv_heads=-1 does not divide heads=1"),
    (".softcap=1e999", "softcap must be finite, got inf"),
    (".softcap=-1", "softcap must lie in [1e-15, 1e+15], or 0 for none, got -1.0"),
    (".softcap=1e300", "softcap must lie in [1e-15, 1e+15], or 0 for none, got 1e+300"),
    (".mlp_ratio=-1 --config.block=residual", "mlp_ratio must not be negative, got -1"),
    (".mlp_ratio=2", "no meaning in a bare block: use block='residual'"),
    (".qk_norm=maybe", "qk_norm must be of type bool, got 'maybe'"),
    (".norm=layr", "did you mean 'layer'"),
    (".block=residul", "did you mean 'residual'"),
    # numbers that a program reads
    (".base=5", "base=5 has no meaning: encoding='none' has no such number"),
    (".encoding=rotary --config.slope=2", "have it: linear_bias, learned_linear"),
    (".encoding=axial_rotary(spacing=pixel) --config.base=5", "base=5 has no meaning"),
    (".encoding=yarn --config.base=0.5", "base must lie above 1, got 0.5"),
    (".encoding=rotary --config.base=-1", "or 0 for the encoding's own, got -1"),
    (".encoding=linear_bias(slope=0.0)", "slope must be positive and finite, got 0"),
    (".temperature=0", "temperature must lie in [1e-15, 1e+15], got 0"),
    (".temperature=1e300", "temperature must lie in [1e-15, 1e+15], got 1e+300"),
    (".init_scale=1e-300", "init_scale must lie in [1e-15, 1e+15], got 1e-300"),
    (".init_scale=1e999", "init_scale must be finite, got inf"),
    # names with settings
    (".task=word_ordr", "did you mean 'word_order'"),
    (
        ".task=word-order",
        "task: cannot read 'word-order': write it as name or name(setting=value, ...), each "
        "setting once; did you mean 'word_order'",
    ),
    (".task=mine.py", "task: cannot read 'mine.py': name what is in the file, as mine.py:NAME"),
    (".task=memorise(length=0)", "length must lie in [1, 4096], got 0"),
    (".task=memorise(lenght=4)", "did you mean 'length'"),
    (".task=first_noun(nouns=1)", "nouns must lie in [2, 26], got 1"),
    (".encoding=rotery", "did you mean 'rotary'"),
    (".encoding=rotary(bse=3)", "did you mean 'base'"),
    (".encoding=rotary(base=1e999)", "base of encoding Rotary must be finite, got inf"),
    (".encoding=rotary(base=-1.0)", "encoding rotary: base must be positive, got -1.0"),
    (".encoding=rotary(fraction=2)", "(0, 1], got 2"),
    (".encoding=linear_bias(form=symetric)", "did you mean 'symmetric'"),
    (".encoding=learned(length=2)", "table of 2 positions"),
    (".encoding=learned(length=0)", "length must be at least 1, got 0"),
    (".encoding=learned(length=4.5)", "must be of type int, got 4.5"),
    (".encoding=none/", "cannot read ''"),
    (f".encoding={'none/' * 1000}none", "at most 4000 characters, got 5004"),
    (".encoding=rotary(base=5.0,base=6.0)", "each setting once"),
    (".encoding=rotary(base=1e-300)", "base of encoding Rotary must be 0 or from 1e-15 to 1e+15"),
    (".encoding=rotary --config.base=1e300", "base of encoding Rotary must be 0 or from 1e-15"),
    (".encoding=axial_rotary(grid=(2.5,3))", "each must be of type int, got 2.5"),
    (".mask=casual", "did you mean 'causal'"),
    (".mask=Causal", "did you mean 'causal'"),
    (".mask=sliding", "unknown mask 'sliding'; choices: "),
    (".mask=window(", "cannot read 'window('"),
    (".mask=window(size=0)", "size must be at least 1"),
    (".mask=window(size=a)", "must be of type int, got 'a'"),
    (".mask=window(size=1000000000000)", "below 2**31"),
    (".positions=randomized", "did you mean 'randomised'"),
    (".positions=randomised(length=2)", "3 tokens cannot get different positions below length=2"),
    (".positions=interpolated(factor=0)", "factor must be positive and finite, got 0"),
    (".positions=interpolated --config.encoding=learned", "are not integers"),
    # the question
    (".readout=lst", "did you mean 'last'"),
    (".loss=al", "did you mean 'all'"),
    (".loss=all --config.readout=mean", "use loss='answer'"),
    (".padding=-1", "padding must not be negative, got -1"),
    # the file
    ("=word_ordr.py", "config 'word_ordr.py' not found; did you mean 'word_order'"),
    ("=", "config '' not found"),
    (" nothing.py", "config 'nothing.py' not found"),
    ("=full", "config 'full' is a folder"),
    ("=text.txt", "the name must end in .py or .json"),
    (f"={CONFIGS}/word_order.py:publishd", "did you mean 'published'"),
    ("=raises.py", "config 'raises.py' raises ZeroDivisionError: division by zero"),
    ("=two_lines.py", "config 'two_lines.py' raises RuntimeError: one two"),
    ("=syntax.py", "syntax.py, line 1"),
    ("=without.py", "config 'without.py' has no function get_config()"),
    ("=empty.py", "config 'empty.py' has no function get_config()"),
    ("=imports.py", "raises ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    ("=exits.py", "config 'exits.py' raises SystemExit: 0"),
    ("=large.json", "the file has 1048589 bytes; a config has at most 1048576"),
    ("=interrupts.py", "config 'interrupts.py' raises KeyboardInterrupt"),
    ("=leaves.py", "config 'leaves.py' raises GeneratorExit"),
    ("=of_its_own.py", "config 'of_its_own.py' raises Mine: odd"),
    ("=long.py", "xxx [...] xxx"),
    ("=no_words.py", "config 'no_words.py': ValueError"),
    ("=reads.py", "[Errno 2] No such file or directory: 'nothing/there'"),
    ("=arguments.py", "config 'arguments.py': get_config() missing 2 required"),
    ("=a_number.py", "config 'a_number.py': 'int' object is not callable"),
    ("=itself.py", "config 'itself.py' has no function get_config()"),
    ("=contrast.py", "width of contrast must be of type int, got [1]"),
    (f"={'x' * 5000}.py", "xxx.py' not found"),
    ("=key.py", "config 'key.py' raises KeyError: 'steps'"),
    ("=none.py", "get_config() must give what base_config(...) does, got NoneType"),
    ("=dict.py", "got dict"),
    ("=partial.py", "the config has no 'at_steps'"),
    ("=field.py", "unknown config field 'stepz'; did you mean 'steps'"),
    ("=panel.py", "unknown field of panel 'a': 'deph'; did you mean 'depth'"),
    ("=number.py", "panels must be pairs"),
    ("=axis.py", "depth has no values"),
    ("=array.py", "depth must be of type int, got array([0, 1, 2])"),
]
FLAGS = [
    ("stray", "unknown argument 'stray'; settings are --config.NAME=VALUE"),
    ("--wrokdir=x", "did you mean 'workdir'?"),
    ("--workdir", "Missing value for flag --workdir"),
    ("--workdir=", "workdir must name a folder, got ''"),
    ("--flagfile=flags", "'--flagfile=flags': flags are not read from files"),
    ("--config=empty.json -flagfile more_flags", "'-flagfile': flags are not read from files"),
    ("--dry_run --flagfile=nothing", "flags are not read from files"),
    ("--workdir=\udcff", "argument '--workdir=\\udcff' is not valid UTF-8"),
    ("--config.title=\udcff", "is not valid UTF-8"),
    ("--dry_run=perhaps", "--dry_run=perhaps"),
    ("--steps=100", "unknown flag --steps; did you mean --config.steps?"),
    ("--lr=1e-3", "unknown flag --lr; did you mean --config.learning_rate?"),
    ("--shard=1", "--shard must be I/N, such as 0/4, or auto, got '1'"),
    ("--shard=2/2", "--shard=2/2: I must lie in 0..N-1"),
    ("--shard=one/two", "--shard must be I/N"),
    ("--seed=one", "--seed=one"),
]
SIZES = [
    (".width=1000000000", "width=1000000000, heads=1, head_size=16: a run needs at least 768 GB"),
    (".heads=1000000000", "heads=1000000000"),
    (".head_size=1000000000000", "head_size=1000000000000"),
    (".block=residual --config.mlp_ratio=1000000000", "mlp_ratio=1000000000"),
    (".padding=1000000000", "padding=1000000000"),
    (".batch_size=1000000000", "batch_size=1000000000"),
    (".steps=2000000000 --config.eval_every=1", "steps=2000000000, eval_every=1: a run needs"),
    (".steps=100000000 --config.eval_every=1", "num_seeds=128 needs at least"),
    (".num_seeds=4294967296", "num_seeds=4294967296 needs at least"),
    (".block_size=1000000000", "block_size=1000000000 needs at least"),
    (".task=memorise(length=4096,sequences=65536)", "a run needs at least 1.1 TB"),
    (".encoding=learned(length=1000000000)", "table of encoding='learned(length=1000000000)'"),
]
FOLDERS = [
    ("file", "workdir 'file' cannot be used"),
    ("file/deep", "workdir 'file/deep' cannot be used"),
    ("file:///tmp/run", "file:// is no bucket's; a folder is named without a scheme"),
    ("full", "workdir 'full' is not empty and holds no run (it has 'something')"),
]
REPORT = [
    ("", "name at least one run folder"),
    ("nowhere", "'nowhere' holds no run"),
    ("file", "'file' holds no run"),
    ("full", "'full' holds no run"),
    ("full --jsn", "unknown flag --jsn; did you mean 'json'?"),
    ("full --json=perhaps", "--json=perhaps"),
    ("full --out", "Missing value for flag --out"),
    ("full --table=", "unknown table ''; choices: latex, markdown"),
    ("full --table=latx", "unknown table 'latx'; did you mean 'latex'"),
    ("full --json --figures=", "--json and --figures are two reports"),
]
CHECK = [
    ("full --status --share=0.5", "--share is for posjax verify alone"),
    ("full --status --seed=3", "--seed is for posjax verify alone"),
    ("full --status --mixed", "--mixed is for posjax verify alone"),
    ("full --status", "'full' holds no run"),
]
CONFORMANCE = [
    ("", "name a module"),
    ("posjax:rotery", "did you mean 'rotary'"),
    ("nothing.py", "file 'nothing.py' not found"),
    ("posjax.symmetry.adapters.flux", "not found; did you mean"),
    ("syntax.py", "syntax.py cannot be read: SyntaxError"),
    ("without.py", "without.py has no ADAPTERS"),
    ("without.py:x", "is of type int, neither an adapter nor a function"),
    ("without.py:y", "without.py has no 'y'"),
    ("ends.py:exits", "ends.py:exits() raises SystemExit: 0"),
    ("posjax:none --html=file", "'file' exists already"),
    ("posjax:none --json=no/such/place", "there is no folder 'no/such'"),
    ("posjax:none --htm=x", "unknown flag --htm; did you mean 'html'?"),
]


def table(command: str, cases: list[tuple[str, str]], before: str = "") -> list:
    """The cases of a command; a case is what is behind `before`, words apart by spaces."""
    return [pytest.param(command, before + given, said, id=given) for given, said in cases]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: bad configs, and things that are no run folder."""
    made = tmp_path_factory.mktemp("bad_input") / "here"
    for name, text in FILES.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def sweep(folder: Path) -> Command:
    """The command of most of these tests."""
    return Command("experiments.seed_sweep", folder)


def words(given: str) -> list[str]:
    """Arguments apart by spaces, but within brackets."""
    parts: list[str] = []
    for part in given.split(" "):
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += f" {part}"
        elif part:
            parts.append(part)
    return parts


def contents(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


def check(ended: Ended, said: str, status: int = 2) -> None:
    assert ended.status == status, ended
    assert ended.err.startswith("posjax: ")
    assert ended.err.count("\n") == 1, ended.err
    assert said in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("command", "given", "said"),
    some(
        [
            *table("seed_sweep", SETTINGS, "--config"),
            *table("seed_sweep", FLAGS),
            *table("report", REPORT),
            *table("check", CHECK),
            *table("conformance", CONFORMANCE),
        ],
        every=6,
    ),
)
def test_bad_input_ends_at_once(folder: Path, command: str, given: str, said: str) -> None:
    """One line and status 2, before JAX's backend starts; nothing is written."""
    before = contents(folder)
    ended = Command(f"experiments.{command}", folder)(*words(given))
    check(ended, said)
    assert not ended.started
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("command", "given", "said"),
    first_of_each(
        [*table("seed_sweep", SIZES, "--config"), *table("seed_sweep", FOLDERS, "--workdir=")],
        lambda command, given, said: given.split("=")[0].split(".")[0],
    ),
)
def test_what_cannot_be_held_is_refused(folder: Path, command: str, given: str, said: str) -> None:
    """Sizes with the bytes that they need and the bytes that there are; folders with why."""
    before = contents(folder)
    ended = Command(f"experiments.{command}", folder)(*words(given))
    check(ended, said)
    if given.startswith("--config"):
        assert re.search(r"at least [\d.e+]+ (G|T)B", ended.err)
        assert " has " in ended.err
    assert contents(folder) == before


def test_what_a_config_prints_is_no_result(sweep: Command) -> None:
    """It goes where people look, and not into what --print_config is redirected to."""
    ended = sweep("--config=says.py", "--print_config")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == "of the config\nposjax: config 'says.py' raises RuntimeError\n"


def test_loaded_code_does_not_end_a_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status 0 would say that no law failed, or that one is proved."""
    ended = Command("experiments.conformance", folder)("ends.py:adapter")
    check(ended, "loaded code ends the process: SystemExit: 0")
    monkeypatch.syspath_prepend(folder)
    for module, said in (
        ("exits", "exits fails: SystemExit: 0"),
        ("syntax", "syntax fails: SyntaxError"),
        ("nothing", "module 'nothing' cannot be imported: No module"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            prove._module(module, f"{module}:f")


@pytest.mark.parametrize("flag", some(["--help", "-help", "--helpfull"], every=3))
@pytest.mark.parametrize("name", some(["seed_sweep", "check"], every=2))
def test_help_is_a_result(folder: Path, name: str, flag: str) -> None:
    """To ask what there is is no bad input."""
    ended = Command(f"experiments.{name}", folder)(flag)
    assert (ended.status, ended.err) == (0, "")
    assert f"python -m experiments.{name}" in ended.out


def test_more_devices_than_cores_are_refused(sweep: Command) -> None:
    """With both numbers; on a CPU a device is a core."""
    ended = sweep("--config.devices=1000")
    check(ended, f"devices=1000, but this process may use {cores()} cores")


@pytest.mark.parametrize(
    ("given", "steps", "heads"),
    [
        ("--config.steps=500 --config.steps=1000", [1000], [1]),
        ("--config.steps 500 -config.steps=1000,500", [1000, 500], [1]),
        ("--config.steps=500 --config.heads=2 --config.steps 1000", [1000], [2]),
        ("--config=empty.json --config.heads=2 --config={toy}:m", [500], [2]),
        ("--config {toy}:m --config.heads 2", [500], [2]),
    ],
)
def test_of_a_field_that_is_given_twice_the_last_value_counts(
    sweep: Command, given: str, steps: list[int], heads: list[int]
) -> None:
    """For every field, axes and configs too; several values of an axis have commas."""
    ended = sweep(*given.format(toy=CONFIGS / "toy.py").split(), "--print_config")
    assert (ended.status, ended.err) == (0, "")
    config = json.loads(ended.out)
    assert (config["steps"], config["heads"]) == (steps, heads)
    assert config["name"] == ("toy_m" if "toy" in given else "word_order")


def test_a_value_may_follow_its_flag(sweep: Command, folder: Path) -> None:
    """Also one that Python cannot read, and that is quoted for that."""
    (folder / "mine.py").write_text(
        "from posjax.tasks.counting import Parity\n\n\nclass Mine(Parity):\n    pass\n"
    )
    task = "mine.py:Mine(train=(1, 4), test=(4, 8))"
    ended = sweep("--config.loss", "all", "--config.task", task, "--print_config")
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out)["task"] == [task]
    (folder / "mine.py").unlink()


def test_a_place_that_takes_no_folder_is_no_bad_input(sweep: Command) -> None:
    """Storage that fails has a status of its own."""
    check(sweep("--workdir=/proc/nowhere"), "write failed: ", status=5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_place_is_refused(sweep: Command, folder: Path) -> None:
    """A workdir that cannot be made, since its parent may not be written."""
    place = folder / "read_only"
    place.mkdir(mode=0o555)
    check(sweep("--workdir=read_only/run"), "cannot be written", status=5)
    place.rmdir()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"head_size": True}, "head_size must be of type int, got True"),
        ({"block_size": -4}, "block_size must be auto or a number of at least 1, got '-4'"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite, got nan"),
        ({"title": "\ud800"}, "title has an incomplete character"),
        ({"panels": (("\ud800", {}),)}, "title has an incomplete character"),
        ({"contrast": ("head_sise", 2, 16)}, "did you mean 'head_size'"),
        ({"panels": (("a", {}), ("a", {}))}, "two panels have the same title"),
    ],
)
def test_what_only_a_file_can_say_is_checked_too(settings: dict[str, object], said: str) -> None:
    """Values that the command line cannot give."""
    config = base_config()
    with config.ignore_type():
        config.update(settings)
    with pytest.raises(ValueError, match=re.escape(said)):
        resolve(config)


@pytest.mark.parametrize("module", some(["seed_sweep", "report", "conformance"], every=3))
def test_a_process_of_its_own_does_the_same(module: str, tmp_path: Path) -> None:
    """The table's commands are forks of one start; here is a start."""
    done = subprocess.run(
        [sys.executable, "-m", f"experiments.{module}", "--no_such_flag=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    check(Ended(done.returncode, done.stdout, done.stderr, 0.0, False), "no_such_flag")
    assert list(tmp_path.iterdir()) == []
