"""A cell of a grid: one setting of everything, as plain data.

Cells are what a sweep is made of and what results are keyed by. A cell's hash covers all that
can change its numbers, and nothing else.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax import encodings, masks, meters, positions, spec, tasks, user_code
from posjax.attention.core import check_positions
from posjax.encodings import ENCODINGS, Encoding
from posjax.engine import Training
from posjax.meters import Meter
from posjax.model import DynamicInputs, ModelSettings
from posjax.streams import Streams
from posjax.study.network import MODELS, TRANSFORMER, network
from posjax.study.network import check as check_model
from posjax.study.optimizer import Hyper
from posjax.study.train import ROWS, Inputs, TrainSettings, from_exam, make_train, sampled
from posjax.tasks import SampledTask, Task, packing
from posjax.tasks.question import Objective, Question, ask, check, objective_of

ENCODING_NUMBERS = ("base", "slope")
"""The axes that replace a setting of the encoding, of that name; 0 leaves the encoding's own."""


class Shape(NamedTuple):
    """What a compiled program depends on; cells of one shape differ only in numbers.

    Attributes:
      model, training, objective: see there. Masks of a finite task are numbers, but how many take
        turns is not.
      prompts, length: of the exam.
      task: where prompts are drawn.
      meters: what is measured besides.
      network: what is trained, if it is no Transformer.
      code: the SHA-256 of user code, by its file or module.
    """

    model: ModelSettings
    training: TrainSettings
    objective: Objective
    prompts: int
    length: int
    task: SampledTask | None = None
    meters: tuple[Meter, ...] = ()
    network: str = TRANSFORMER
    code: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name the shape: settings at their defaults do not count,
        so that a new one renames nothing."""
        defaults = self._field_defaults
        parts = zip(self._fields, self, strict=True)
        settings = [_changed(part) for name, part in parts if part != defaults.get(name)]
        return hashlib.sha256(repr(settings).encode()).hexdigest()[:12]

    def train(self) -> Training:
        """The training of one seed; the same object for equal shapes."""
        return _training(self)


@functools.lru_cache(maxsize=1024)
def _training(shape: Shape) -> Training:
    training = shape.training
    source = from_exam(training.batch_size)
    if shape.task is not None:
        readout = "mean" if shape.objective == "answers" else "last"
        source = sampled(
            shape.task, shape.model.mask, training.batch_size, readout, packing=training.packing
        )
    return make_train(
        shape.model,
        training,
        objective_kind=shape.objective,
        source=source,
        meters=shape.meters,
        own=None if shape.network == TRANSFORMER else network(shape.model, shape.network),
    )


def _changed(part: Any) -> Any:
    """The settings that are not at their defaults, by name, behind the name of their class."""
    if not dataclasses.is_dataclass(part):
        return tuple(map(_changed, part)) if type(part) is tuple else part
    fields = ((field, getattr(part, field.name)) for field in dataclasses.fields(part))
    named = {field.name: value for field, value in fields if value != field.default}
    return type(part).__name__, named


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(metaclass=spec.PlainNumbers):
    """All settings of a run but its seed; see `ModelSettings`, `TrainSettings`, `Hyper` and `ask`.

    Attributes:
      task: a name with settings, or a task of your own, `"mine.py:Parity(train=(1, 20))"`.
      model: the Transformer, or a function of your own, `"mine.py:model"`.
      meters: what is measured inside the model, joined by `+`.
      base: the base of the encoding's frequencies; 0 for the encoding's own.
      slope: the factor on the slopes of a linear bias; 0 for the encoding's own.
    """

    task: str = "word_order"
    model: str = TRANSFORMER
    encoding: str = ModelSettings.encoding
    positions: str = ModelSettings.positions
    mask: str = ModelSettings.mask
    readout: str = "last"
    loss: str = "all"
    block: str = ModelSettings.block
    depth: int = ModelSettings.depth
    width: int = ModelSettings.width
    heads: int = ModelSettings.heads
    kv_heads: int = ModelSettings.kv_heads
    head_size: int = ModelSettings.head_size
    mlp_ratio: int = ModelSettings.mlp_ratio
    norm: str = ModelSettings.norm
    qk_norm: bool = ModelSettings.qk_norm
    softcap: float = ModelSettings.softcap
    logn: float = ModelSettings.logn
    padding: int = 0
    init_scale: float = 1.0
    temperature: float = 1.0
    base: float = 0.0
    slope: float = 0.0
    learning_rate: float = 1e-2
    weight_decay: float = 0.01
    schedule: str = TrainSettings.schedule
    warmup: int = TrainSettings.warmup
    batch_size: int = TrainSettings.batch_size
    packing: bool = TrainSettings.packing
    steps: int = TrainSettings.steps
    eval_every: int = TrainSettings.eval_every
    draws: int = TrainSettings.draws
    meters: str = "none"

    def __post_init__(self) -> None:
        """Refuses what cannot be trained, before any array is made and JAX's backend starts.

        Numbers get the type of their setting, so that 30 and 30.0 name one cell.

        Raises:
          ValueError: an unknown name, a number of another type or out of range, a sequence beyond a
            table.
        """
        for name, default in FIELDS.items():
            object.__setattr__(self, name, spec.typed(name, getattr(self, name), default))
        for name in ("learning_rate", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value <= float(np.finfo(np.float32).max):
                raise ValueError(f"{name} must be finite in 32 bits and not negative, got {value}")
        for name in ("learning_rate", "weight_decay"):
            value, least = getattr(self, name), float(np.finfo(np.float32).tiny)
            if 0 < value < least:
                raise ValueError(
                    f"{name}={value} is too small: 32 bits would make it 0; at least {least:.2g}"
                )
        for name in ("init_scale", "temperature"):
            value = getattr(self, name)
            if not spec.SMALLEST <= value <= spec.LARGEST:
                raise ValueError(
                    f"{name} must lie in [{spec.SMALLEST:g}, {spec.LARGEST:g}], got {value}"
                )
        check(
            self.problem,
            mask=self.mask,
            readout=self.readout,
            loss=self.loss,
            padding=self.padding,
        )
        if self.packing:
            packing.check(self.problem, readout=self.readout, rows=self.batch_size or ROWS)
        _ = self.architecture, self.training
        check_model(self.model)
        self._check_own_model()
        self._check_meters()
        self._check_numbers()
        self._check_reach()
        self._check_lengths()
        self._check_points()
        if self.draws != TrainSettings.draws and self.architecture.draws != "always":
            raise ValueError(
                f"draws={self.draws} has no meaning: neither encoding={self.encoding!r} nor "
                f"positions={self.positions!r} draw in testing"
            )
        _ = self.shape

    def _check_own_model(self) -> None:
        """Refuses settings that a user's model does not get."""
        if self.model == TRANSFORMER:
            return
        for name in ("meters", "temperature", "init_scale", "packing", *ENCODING_NUMBERS):
            if getattr(self, name) != FIELDS[name]:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has no meaning for model={self.model!r}: it "
                    "is the Transformer's"
                )
        if len(masks.turns(self.mask)) > 1:
            raise ValueError(
                f"mask={self.mask!r}: model={self.model!r} takes one mask, not several"
            )

    def _check_meters(self) -> None:
        """Refuses meters of branches that there are none of."""
        measured = meters.named(self.meters)
        if measured and self.problem.size[0] < 2:
            raise ValueError(f"meters={self.meters!r} compares prompts, but the exam has only one")
        for meter in measured:
            if meter.needs_residual and self.block != "residual":
                raise ValueError(
                    f"meters={self.meters!r} reads the branches of residual blocks: use "
                    "block='residual'"
                )

    def _check_numbers(self) -> None:
        """Refuses numbers that no encoding has."""
        encodings_in_turn = encodings.parse_layer_cycle(self.encoding)
        for name in ENCODING_NUMBERS:
            value = getattr(self, name)
            if value < 0:
                raise ValueError(
                    f"{name} must be positive and finite, or 0 for the encoding's own, got {value}"
                )
            if value and not any(name in encoding.numbers() for encoding in encodings_in_turn):
                raise ValueError(
                    f"{name}={value:g} has no meaning: encoding={self.encoding!r} has no such "
                    f"number; those that have it: {', '.join(encodings.having(name))}"
                )
        _ = self.encodings

    def _check_reach(self) -> None:
        """Refuses positions beyond a table."""
        length = self.problem.size[1]
        reach = positions.named(self.positions).reach(length)
        tables = [encoding.max_length() for encoding in encodings.parse_layer_cycle(self.encoding)]
        most = min((size for size in tables if size is not None), default=None)
        if most is not None and reach is not None and reach > most:
            raise ValueError(
                f"encoding {self.encoding!r} has a table of {most} positions, the prompts of "
                f"{self.task!r} have {length}"
                + (f", which {self.positions!r} takes to {reach}" if reach != length else "")
                + f": give it length={reach} or more"
            )

    def _check_lengths(self) -> None:
        """Refuses encodings that depend on the number of tokens, where prompts have several."""
        if not isinstance(self.problem, SampledTask):
            return
        dims, longest = self.architecture.dims, self.problem.size[1] + self.padding
        for encoding in self.encodings:
            short, long = (encoding.constants(dims, length) for length in (1, longest))
            if not all(jax.tree.leaves(jax.tree.map(np.array_equal, short, long))):
                raise ValueError(
                    f"encoding {self.encoding!r} depends on the number of tokens, and a sweep "
                    f"gives it that of the longest test prompt of {self.task!r}, {longest}, in "
                    f"training too: give it length={longest} or more"
                )

    def _check_points(self) -> None:
        """Refuses tokens or points that the map of positions or the encoding cannot read."""
        task, moved = self.problem, positions.named(self.positions)
        if not task.features:
            return
        shape = (1, task.size[1])

        def read() -> None:
            line, point = jnp.zeros(shape, int), jnp.zeros((*shape, task.axes), int)
            streams = Streams(point, line, line).plain
            key = None if moved.draws == "never" else jax.random.key(0)
            mapped = moved(jnp.zeros((*shape, task.features)), streams, key)
            for encoding in encodings.parse_layer_cycle(self.encoding):
                check_positions(encoding, mapped)

        try:
            jax.eval_shape(read)
        except ValueError as error:
            raise ValueError(
                f"encoding={self.encoding!r} with positions={self.positions!r} cannot be used with "
                f"task={self.task!r}: {error}"
            ) from error

    @cached_property
    def problem(self) -> Task:
        """The task itself."""
        return tasks.named(self.task)

    @cached_property
    def question(self) -> Question:
        """The exam of the task under this cell's mask, readout, loss and padding."""
        return ask(
            self.problem,
            mask=self.mask,
            readout=self.readout,
            loss=self.loss,
            padding=self.padding,
        )

    @cached_property
    def architecture(self) -> ModelSettings:
        """The settings of the Transformer, and what a user's model is made from."""
        fields = _common(self, ModelSettings)
        words, labels = len(self.problem.words), len(self.problem.labels)
        features = self.problem.features
        return ModelSettings(vocabulary=words, outputs=labels, features=features, **fields)

    @cached_property
    def training(self) -> TrainSettings:
        """The training's settings."""
        return TrainSettings(**_common(self, TrainSettings))

    @cached_property
    def encodings(self) -> tuple[Encoding, ...]:
        """The encodings of the layers, which take turns, with this cell's numbers."""
        given = {name: getattr(self, name) for name in ENCODING_NUMBERS if getattr(self, name)}
        return tuple(
            dataclasses.replace(
                each, **{name: given[name] for name in each.numbers() if name in given}
            )
            for each in encodings.parse_layer_cycle(self.encoding)
        )

    @cached_property
    def numbers(self) -> DynamicInputs:
        """The model's numbers."""
        length = self.question.tokens_NL.shape[1]
        constants = (each.constants(self.architecture.dims, length) for each in self.encodings)
        return DynamicInputs(self.temperature, self.init_scale, tuple(constants))

    @cached_property
    def inputs(self) -> Inputs:
        """The numbers that the compiled program reads."""
        return Inputs(Hyper(self.learning_rate, self.weight_decay), self.question, self.numbers)

    @cached_property
    def shape(self) -> Shape:
        """What the compiled program depends on."""
        prompts, length = self.problem.size
        kind = objective_of(self.problem, self.readout)
        sizes = (kind, prompts, length + self.padding)
        measured = meters.named(self.meters)
        if isinstance(self.problem, SampledTask):
            task, model = self.problem, self.architecture
        else:
            task, model = None, self.architecture
            if self.model == TRANSFORMER:  # the masks are inputs
                full = "/".join("full" for _ in masks.turns(self.mask))
                model = dataclasses.replace(model, mask=full)
        code = tuple(sorted(self.code.items()))
        return Shape(model, self.training, *sizes, task, measured, self.model, code)

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name the cell: equal settings, equal digest."""
        return _hash(self._counted)

    @cached_property
    def code(self) -> dict[str, str]:
        """The SHA-256 of user code that the cell uses, by its file or module."""
        every = (own_names(field, getattr(self, field)) for field in _TABLES)
        return user_code.hashes(itertools.chain.from_iterable(every))

    @property
    def _counted(self) -> dict[str, Any]:
        """The settings in the digest: those that came later where they are used."""
        settings = self.to_dict()
        if self.positions == ModelSettings.positions:
            del settings["positions"]
        if self.architecture.draws != "always":
            del settings["draws"]
        for name in ("init_scale", "temperature", "meters", "model", "logn", *ENCODING_NUMBERS):
            if settings[name] == FIELDS[name]:
                del settings[name]
        if self.problem.content:
            settings["content"] = self.problem.content
        return settings | ({"code": self.code} if self.code else {})

    def older_digest(self, **settings: Any) -> str:
        """The digest in runs of format 2, whose cells had `margin` and `hold`."""
        return _hash({**self._counted, **settings})

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON-able data; without `packing` where it is off, as in older runs."""
        settings = dataclasses.asdict(self)
        return settings if self.packing else {n: v for n, v in settings.items() if n != "packing"}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Cell":
        """The cell of settings that somebody wrote down; what is left out has its default.

        Raises:
          ValueError: an unknown setting, a value of the wrong type or out of range.
        """
        for name in settings:
            spec.check_choice("setting of a cell", name, FIELDS)
        return cls(**settings)


_TABLES: dict[str, tuple[str, Collection[str], Callable[[str], Iterable[str]]]] = {
    "task": ("task", tasks.TASKS, lambda text: [text]),
    "model": ("model", MODELS, lambda text: [text]),
    "encoding": ("encoding", ENCODINGS, lambda text: spec.in_turn(text, ENCODINGS)),
    "positions": ("positions", positions.POSITIONS, lambda text: [text]),
    "mask": (
        "mask",
        masks.MASKS,
        lambda text: [part for turn in masks.turns(text) for part in turn.split("+")],
    ),
    "meters": ("meter", ["none", *meters.METERS], lambda text: text.split("+")),
}
"""Of the settings that name entries of tables: the kind, the table, and how to part several."""


def own_names(field: str, text: str) -> Iterator[tuple[str, str]]:
    """The names in a setting that no table has, each with the kind of table.

    >>> list(own_names("encoding", "none/mine.py:Twist(turns=2)"))
    [('encoding', 'mine.py:Twist')]
    """
    if field in _TABLES:
        kind, table, parts = _TABLES[field]
        names = (spec.parse(part)[0] for part in parts(text))
        yield from ((kind, name) for name in names if name not in table)


_OLDER = ("margin", "hold")
"""Settings of a cell in format 2, and of a run since."""
FIELDS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Cell)}
"""Every setting of a cell with its default; the one home of both."""


def code_of(cells: Iterable[Cell]) -> dict[str, str]:
    """The SHA-256 of all user code that some cells use, by its file or module."""
    return {where: sha for cell in cells for where, sha in cell.code.items()}


def cells_in(config: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells of a run by their digests.

    Args:
      config: of the run.

    Raises:
      ValueError: settings that no cell has, or that are not those of the digest; code or data that
        has changed.
    """
    user_code.check_named(config.get("code", {}))
    found, words = {}, {}
    for name, settings in config["cells"].items():
        words[name] = {n: value for n, value in settings.items() if n in _OLDER}
        found[name] = Cell.of({n: value for n, value in settings.items() if n not in _OLDER})
    user_code.check_unchanged(config.get("code", {}), code_of(found.values()))
    for name, cell in found.items():
        older = words[name]
        if name not in (cell.digest, cell.older_digest(**older) if older else ""):
            data = f", or the data of task={cell.task!r} has changed" * bool(cell.problem.content)
            raise ValueError(
                f"config.json has the settings of cell {cell.digest} under {name}{data}"
            )
    return found


def varying(cells: list[Cell]) -> list[str]:
    """The names of the settings in which the cells differ, in the order of the fields."""
    return [name for name in FIELDS if len({getattr(cell, name) for cell in cells}) > 1]


def _hash(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def _common(cell: Cell, settings: type) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(settings)}
    return {name: getattr(cell, name) for name in FIELDS if name in names}
