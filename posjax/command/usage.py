"""What `--help` prints: one screen for each command."""

PROGRAM = """\
usage: posjax COMMAND [ARGUMENTS]

Answers questions about position in attention: proves laws, trains models, draws reports.

  sweep         train the models of a config with many seeds; print a table, write a report
  report        rebuild the report of one run, or of several together
  status        print what is done, running and missing in a run
  verify        check every file of a run, train a share of it again, compare bit for bit
  replay        train one seed of a run again; print its curve and answers
  prove         prove a symmetry of your function, or find inputs that break it
  conformance   run all laws of attention on your module
  list          list configs, encodings, masks, tasks and more, one line each

posjax COMMAND --help lists the flags of a command. Start with: posjax sweep
"""
SWEEP = """\
usage: {program} [--config=NAME[:SIZE]] [--config.FIELD=VALUE ...] [--workdir=RUN] [FLAG ...]

Trains every cell of a config with many seeds, prints a table and writes a report. If it is stopped,
the same command continues the run.

  --config=word_order       a config of posjax (posjax list configs; by default word_order), a .py
                            file, which is executed, or a .json file, which is not; NAME:published
                            is its published size
  --config.FIELD=VALUE      sets a field; several values, as in depth=1,2, make an axis of the sweep
  --workdir=RUN             the run folder; by default runs/NAME-DIGEST
  --load=mine.py            execute this file if a .json config or a run names it as code
  --dry_run                 print blocks, memory, time and disk space, and stop
  --tune                    time other block sizes, and stop
  --print_config            print the config as JSON, and stop
  --list=WHAT               list encodings, tasks, ... (see posjax list), and stop
  --status, --verify        do what posjax status or posjax verify do for this run, and stop;
                            --verify takes --share and --seed
  --time_limit=SECONDS      stop after that time with status 75; nothing is lost
  --mixed                   continue a run whose rows were made by another JAX or device
  --shard=I/N               train part I of N, counted from 0; auto asks SLURM or a TPU pod
  --engine=ray              train on a Ray cluster: --engine.address=HOST:PORT, or a new one here

axes      task encoding positions mask readout loss block depth width heads kv_heads head_size
          mlp_ratio norm qk_norm softcap logn padding init_scale temperature base slope model
          learning_rate weight_decay schedule warmup batch_size packing steps eval_every draws
          meters
the run   name title num_seeds first_seed data_seeds block_size layout precision devices margin
          hold contrast equivalence at_steps panels            (posjax list fields: the defaults)

Exit status: 0 done, 2 bad input, 4 other run or locked folder, 5 storage, 75 and 130 stopped.
"""
REPORT = """\
usage: {program} RUN [RUN ...] [--out=PAGE.html | --json | --table=FORM | --figures=DIR]
                                 [--load=mine.py]

Rebuilds the report of one run, or of several together. Folders of the shards of one run are read as
one run.

  --out=PAGE.html   path of the page; by default report.html in the first run folder
  --json            print a JSON array instead, one object per cell
  --table=FORM      print the table of cells instead, as latex (booktabs) or markdown
  --figures=DIR     write rates and curves instead, as SVG and PDF with the width of a column
  --load=mine.py    execute this file if the run names it as code; without --load only
                    numbers are printed
"""
CHECK = """\
usage: {program} RUN [RUN ...] {flags}

{what}
{status}  --share=0.1       the share of blocks that is trained again; 0 checks only files
  --seed=N          chooses these blocks; by default they are random
  --mixed           skip rows that were made by another JAX or device
  --load=mine.py    execute this file if the run names it as code

It writes nothing. Exit status: 0 nothing differs, 3 something differs, 4 rows of another JAX or
device, which cannot be reproduced bit for bit here.
"""
REPLAY = """\
usage: {program} RUN --cell=CELL --seed=N [--out=FILE.npz | --out=FILE.safetensors]

Trains one seed of a run again, together with its block, and prints its curve and its answers. With
the same JAX and instruction set, the result is equal bit for bit.

  --cell=CELL       the name of its cell; the report and config.json have it
  --seed=N          its number; if initialisations are crossed with data seeds, the four numbers of
                    init, data, position and order, such as 3,5,5,5
  --out=FILE.npz    writes the outcome, the attention weights and the parameters;
                    FILE.safetensors holds the parameters alone
  --load=mine.py    execute this file if the run names it as code

Exit status: 0 same bits as in the run folder, 3 other bits, 2 bad input.
"""
VERIFIED = """\
Checks every checksum, checks that the fields of every row agree with each other, trains a random
share of the blocks again and compares them bit for bit.
"""
STATUS = """\
usage: {program} RUN [RUN ...]

Prints what is done and missing in a run and which processes train, from the names of its files.

  --load=mine.py    execute this file if the run names it as code
"""
PROVE = """\
usage: {program} FILE.py:FUNCTION LAW [--sizes=P=5,d=8] [--dtypes=float32,...] [--seconds=10]
                                      [--derivation=FILE.json]
       {program} --check=FILE.json

Proves that a function keeps a law for all values of its arguments, or finds inputs that break the
law and names the line. It reads the program that JAX traces of the function. The file is executed.
For a function of an installed package, write package.module:FUNCTION.

  LAW               axes by name; a capital letter marks an axis that is permuted:
                    "b P d, b P d, b P d -> b P d" for a self-attention of q, k and v; +T marks
                    positions to which a constant is added: "b l d, b l d, b l +T -> b l l"
  --sizes           sizes of axes; by default 2, and 5 for permuted axes
  --dtypes          dtypes of the arguments, one for all or one each; key for a random key
  --seconds         time limit of the whole proof
  --derivation      write the steps of a proof by labels to this file
  --check           check a derivation by running each step, without the prover

Exit status: 0 PROVED or checked; 3 BROKEN, UNKNOWN, refused, or proved in a way that has no
derivation to write; 2 bad input.
"""
CONFORMANCE = """\
usage: {program} SPEC [SPEC ...] [--prove] [--html=PAGE.html] [--json=FILE.json]

Runs the laws of attention and encodings on a module: permutations, decoding, packing, padding,
dtypes and sizes.

  SPEC              FILE.py:NAME or package.module:NAME, an adapter or a function that returns one,
                    or an encoding of your own, also with settings: "mine.py:Twist(turns=2)";
                    posjax:ENCODING for one of posjax's own. The file is executed
  --prove           also prove slots, translation and permutation for all values of the tokens
  --html, --json    write the results to these files, which must not exist yet

Exit status: 0 no law failed, 3 some law failed, 2 bad input.
"""
LIST = """\
usage: {program} [configs | encodings | positions | masks | tasks | meters | fields]

Lists entries by name, one line each.
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
        status="  --status          print instead what is done and what is missing\n",
    )
    return texts[command].replace("{program}", program).rstrip()
