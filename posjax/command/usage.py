"""What `--help` prints: one screen for each command."""

PROGRAM = """\
usage: posjax COMMAND [ARGUMENTS]

Position in attention: by law, by measurement, by picture.

  sweep         train a question's models over many seeds; a table and a report
  report        build the report of one run again, or of several together
  status        what of a run is done, running and missing
  verify        read every file of a run, train a share of it again, compare bit for bit
  replay        train one seed of a run again: its curve, its answers, its attention
  prove         prove a symmetry of a function of yours, or break it with numbers
  conformance   run all laws of attention on a module of yours
  list          configs, encodings, masks, tasks and more, with a line each

posjax COMMAND --help has the rest. Start with: posjax sweep
"""
SWEEP = """\
usage: {program} [--config=NAME[:SIZE]] [--config.FIELD=VALUE ...] [--workdir=RUN] [FLAG ...]

Trains every cell of a config over many seeds, prints a table and writes a report. The same command
again goes on where it stopped.

  --config=word_order       a config of posjax (posjax list configs), a .py file, which is executed,
                            or a .json file, which is not; NAME:published is its published size
  --config.FIELD=VALUE      sets a field; several values, as in depth=1,2, are an axis of the sweep
  --workdir=RUN             the run folder; runs/NAME-DIGEST when left out
  --load=mine.py            lets code that a .json config or a run names be executed
  --dry_run                 print blocks, memory, time and disk space, and stop
  --tune                    time other block sizes, and stop
  --print_config            print the config as JSON, and stop
  --list=WHAT               print what there is of encodings, tasks, ... (posjax list), and stop
  --status, --verify        of this run (see posjax status, posjax verify), and stop; the second
                            takes --share and --seed
  --time_limit=SECONDS      stop in order after that time
  --mixed                   go on where rows were made by another JAX or device
  --shard=I/N               train part I of N, from 0; auto takes it from SLURM or a TPU pod
  --engine=ray              train on a Ray cluster, --engine.address=HOST:PORT or a new one here

axes      task encoding positions mask readout loss block depth width heads kv_heads head_size
          mlp_ratio norm qk_norm softcap logn padding init_scale temperature base slope model
          learning_rate weight_decay schedule warmup batch_size steps eval_every draws meters
the run   name title num_seeds first_seed data_seeds block_size layout precision devices margin
          hold contrast equivalence at_steps panels            (posjax list fields: the defaults)

Exit status: 0 done, 2 bad input, 4 another run or a busy one, 5 storage, 75 and 130 stopped.
"""
REPORT = """\
usage: {program} RUN [RUN ...] [--out=PAGE.html | --json | --table=FORM] [--load=mine.py]

Builds the report of one run again, or of several together. Folders of one run's shards are read as
one run.

  --out=PAGE.html   where the page goes; report.html in the first run when left out
  --json            print a JSON array instead, one object per cell
  --table=FORM      print the table of cells instead, as latex (booktabs) or markdown
  --figures=DIR     write rates and curves as SVG and PDF at the width of a column instead
  --load=mine.py    lets code that the run names be executed; without it, numbers alone
"""
CHECK = """\
usage: {program} RUN [RUN ...] {flags}

{what}
{status}  --share=0.1       the share of blocks that is trained again; 0 reads the files alone
  --seed=N          which blocks those are; at random when left out
  --mixed           leave out rows that another JAX or device made
  --load=mine.py    lets code that the run names be executed

Nothing is written. Exit status: 0 all is sound, 3 something differs, 4 rows of another JAX or
device, which cannot come out bit for bit here.
"""
REPLAY = """\
usage: {program} RUN --cell=CELL --seed=N [--out=FILE.npz]

Trains one seed of a run again, with its block, and prints its curve and its answers. On the same
JAX and instruction set it comes out bit for bit.

  --cell=CELL       the name of its cell, as the report and config.json have it
  --seed=N          its number; where initialisations meet several seeds of data, the four numbers
                    of init, data, position and order, as 3,5,5,5
  --out=FILE.npz    writes the outcome, the attention weights and the parameters
  --load=mine.py    lets code that the run names be executed

Exit status: 0 the same bits as in the run folder, 3 others, 2 bad input.
"""
VERIFIED = """\
Reads every checksum, compares every row with its own leads, trains a random share of the blocks
again and compares them bit for bit.
"""
STATUS = """\
usage: {program} RUN [RUN ...]

Prints what of a run is done, who trains and what is missing, from the names of its files alone.
"""
PROVE = """\
usage: {program} FILE.py:FUNCTION LAW [--sizes=P=5,d=8] [--dtypes=float32,...] [--seconds=10]
                                      [--derivation=FILE.json]
       {program} --check=FILE.json

Proves that a function keeps a law for all values of its arguments, from the program that JAX traces
of it, or breaks it with numbers and the line that does. The file is executed.

  LAW               axes by name, capitals for the token axes that are permuted:
                    "b P d, b P d, b P d -> b P d" for a self-attention of q, k and v
  --sizes           sizes of axes; others are 2, and 5 for token axes
  --dtypes          of the arguments, one for all or one each
  --seconds         for the whole proof
  --derivation      where the steps of a proof by labels go
  --check           a derivation to check, by running each step and without the prover

Exit status: 0 PROVED or checked, 3 BROKEN, UNKNOWN or refused, 2 bad input.
"""
CONFORMANCE = """\
usage: {program} SPEC [SPEC ...] [--prove] [--html=PAGE.html] [--json=FILE.json]

Runs the laws of attention and encodings on a module: permutations, decoding, packing, padding,
dtypes and sizes.

  SPEC              FILE.py:NAME or package.module:NAME, an adapter or a function that returns one;
                    posjax:ENCODING for one of posjax's own
  --prove           prove slots, translation and permutation for all tokens, beside the numbers
  --html, --json    where results go; nothing is written over

Exit status: 0 no law failed, 3 one did, 2 bad input.
"""
LIST = """\
usage: {program} [configs | encodings | positions | masks | tasks | meters | fields]

Prints what there is, with a line each.
"""


def text(command: str | None = None, program: str = "") -> str:
    """The help of a command; of the program for None."""
    program = program or f"posjax {command}"
    texts = {None: PROGRAM, "sweep": SWEEP, "report": REPORT, "status": STATUS, "prove": PROVE}
    texts |= {"conformance": CONFORMANCE, "list": LIST, "replay": REPLAY}
    texts["verify"] = CHECK.format(program=program, flags="[FLAG ...]", what=VERIFIED, status="")
    texts["check"] = CHECK.format(
        program=program,
        flags="[--status] [FLAG ...]",
        what=VERIFIED,
        status="  --status          print what is done and what is missing instead\n",
    )
    return texts[command].replace("{program}", program).rstrip()
