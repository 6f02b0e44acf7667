"""What benchmarks/run_all.py runs, and what docs/Results.md says about it: the page's sections, and a list of entries.

No program of its own. A new benchmark is one more Entry; its place in the page is that of its section, in the order of the list.
"""
from typing import NamedTuple


class Entry(NamedTuple):
    """A row of the list. Texts are Markdown, as seen from docs/."""

    name: str  # of its files among the results
    section: str  # a key of SECTIONS
    title: str
    # Run one after the other in the repository's root: {bin} is the tools' folder, {build} what that is in, {out} the entry's own folder.
    commands: tuple
    seconds: int  # about, on two quiet cores
    text: str  # what is claimed and what to look at
    after: str = ""  # what explains the figures
    # Paragraphs of the output with a line that matches, and all claims, are on the page, and the whole is folded. Empty: the whole is.
    show: str = ""
    pictures: tuple = ()  # that the commands write to {out}; the page has them in images/
    # "quiet": figures are times, so nothing else may run; "gpu"; anything else is a program. Without them the entry is skipped.
    needs: tuple = ()


SECTIONS = {
    "Parm": """Parm (INFOCOM 2024) divides the tokens of a model-parallel group among its members, so that none is computed twice, in two
schedules S1 and S2, and chooses the shorter one. Its grid of layers and its two models are compiled and simulated on profiles of its two
testbeds; none of the constants was fitted to its tables. [What differs from the paper and
why](Papers.md#parms-sweep-beside-the-paper).""",
    "PPMoE": """PPMoE (arXiv 2304.11414) puts the experts inside a tensor-parallel group, without any all-to-all, and adds pipeline
stages. The 13 settings of its Table 2 are whole models of up to 143B parameters on up to 256 V100, compiled and simulated on profiles of
its clusters. [What the paper leaves open and what explains the differences](Papers.md#ppmoes-tables).""",
    "MPipeMoE": """MPipeMoE (IPDPS 2023) cuts the tokens of a layer into n chunks, whose exchanges overlap with the computation of others,
and saves memory by offloading, exchanging or computing again what the backward needs (S1 to S4). Its layers are compiled and simulated on
a profile of its 64 A100, with tensor cores (tf32) and without, since the paper does not say which of the systems that it compares used
them. [What explains the differences](Papers.md#mpipemoe-beside-the-paper).""",
    "FasterMoE": """FasterMoE (PPoPP 2022) computes popular experts where their tokens are (shadows) and exchanges by groups of neighbours
beside the experts (the smart schedule). The MoE layers of its seven models are compiled and simulated link by link on profiles of its two
clusters, with synthetic routing that has the statistics of recorded training. [What explains the
differences](Papers.md#fastermoe-beside-the-paper).""",
    "The best plan": """What `--schedule=auto` chooses against each paper's own schedule, on the paper's grid and profile. Both steps are
what the search goes by: simulated in closed form, with all that the plan does. The choice may use the device's memory, or as much as the
paper's plan where that needs more; against MPipeMoE, which is there to need less, no more than its plan takes. Gains are geometric means.""",
    "Prediction against measurement": """Steps that `moe-sim` predicts against those that `moe-run` measures. Calibration knows kernels
and collectives of the machine and has seen none of the plans.""",
    "Training curves": """One model, one text, one curve of losses: how a model is divided must not change what it learns.""",
    "Host measurements": """What runs on this machine's processors, against a named peer in the same run: the plain BLAS calls, `memcpy`,
the baseline's plan.""",
    "Planner speed": """How long it takes to choose a plan for a model on a cluster.""",
    "GPU": """One layer in bf16 on a GPU beside cuBLAS, plain copies and PyTorch. No figure of a GPU is here until it has run on one; what
the columns mean is in [benchmarks/README.md](../benchmarks/README.md#a-layer-on-a-gpu).""",
}

ENTRIES = [
    Entry("parm-sweep", "Parm", "5832 layers",
          ("{bin}/parm_sweep --svg={out}/parm",), 30,
          text="""Every layer of Table III on 8 devices of testbed A and 8, 16 and 32 of B, forward and backward. Claims: no schedule
is slower than the baseline, and the choice between S1 and S2 loses at most 1% against the better one. Means by setting stand beside
Table IV's ranges.""",
          after="""S1, S2 and auto are slower than the baseline nowhere; with N_MP = N_ESP = 1 they are the baseline. As in the paper,
sums of gradients over data-parallel ranks take no time. A is 20 to 30% too fast: its gathers weigh more beside the all-to-all than on
the paper's server, of which we have no measurement. SAA gains more on B than in the paper, since many small sends cost nothing extra
here.""",
          show="^Means of|^32 GPUs|^Algorithm 1|^testbed  cases",
          pictures=("parm-histogram.svg", "parm-wins.svg")),
    Entry("parm-models", "Parm", "BERT-Base and GPT-2 with MoE",
          ("benchmarks/parm_models.py --bin {bin}",), 35,
          text="""Whole training steps, on which the paper gains 2.98 to 3.15. Claims: no schedule is slower than the baseline, auto
takes the better one.""",
          after="""N_MP, top-k and how many blocks are MoE decide, none of which the text that we have tells: "as above" is N_MP = 4,
top-2, capacity factor 1.2, four sequences, every other block MoE. [More](Papers.md#parms-models)."""),
    Entry("ppmoe-table2", "PPMoE", "Table 2",
          ("benchmarks/ppmoe.py --bin {bin} --parts=table2 --svg={out}/ppmoe-table2.svg",), 120,
          text="""Tokens a second and GPU of all settings beside the paper's, in three ways to read what it leaves open: how many
sequences a micro-batch has. Claims: PPMoE beats DPMoE in the large setting, DPMoE is slowest with tensor parallelism of 8, PPMoE has
no all-to-all.""",
          after="""Sequences of a micro-batch decide the small setting: without tensor parallelism they need so much memory in
Megatron that two of them fit, and eight in our plans.""",
          show="^Ratios|^ +paper|^Tokens a second", pictures=("ppmoe-table2.svg",)),
    Entry("ppmoe-open", "PPMoE", "What the paper leaves open",
          ("benchmarks/ppmoe.py --bin {bin} --parts=open",), 20,
          text="""Throughput by sequences of a micro-batch and by micro-batches of a step; what the start-ups of exchanges cost, of
which our plans have one for each parameter where DeepSpeed merges gradients."""),
    Entry("ppmoe-parts", "PPMoE", "Parts of a forward step, Tables 1 and 3",
          ("benchmarks/ppmoe.py --bin {bin} --parts=parts",), 3,
          text="""What a forward consists of, beside the paper's measurement. One exchange takes 160 ms in Table 1; here 13 pairwise,
and 56 around the ring that the paper describes."""),
    Entry("mpipemoe-n", "MPipeMoE", "The best number of chunks, Fig. 12",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=n --svg={out}/mpipemoe",), 10,
          text="""GPT3-XL on 64 ranks. Claim: the best n rises with the tokens B, as Algorithm 1 assumes.""",
          after="""The thresholds are about twice the paper's (8k and 22k) with tf32, because of the 63 pairwise steps that start an
exchange: with exchanges that start at once four or eight chunks are best from 1k on.""",
          show="^Best n|^   B", pictures=("mpipemoe-n.svg",)),
    Entry("mpipemoe-strategies", "MPipeMoE", "Strategies of reuse, Fig. 13",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=strategies --svg={out}/mpipemoe",), 10,
          text="""S1 to S4 by ranks N and tokens B. Claim: what Eq. 10 chooses costs at most 5% in the mean over the best. The paper
found S1 and S2 better on 8 ranks and S4 better than S2 on 32 and 64; each rate of products agrees with one half.""",
          pictures=("mpipemoe-strategies.svg",)),
    Entry("mpipemoe-speedups", "MPipeMoE", "Speed and memory, Fig. 8 and 9",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=speedups --svg={out}/mpipemoe",), 30,
          text="""Twelve layers against FastMoE (the baseline) and FasterMoE (two chunks). Claims: PipeMoE is never slower than
FastMoE, MPipeMoE needs less memory.""",
          after="""Overlap cannot give the paper's factors: a step in which exchanges hid all of computation, or the reverse, would be
1.76 times as short at most. Factors like them come out if the others compute without tensor cores.""",
          show="^Speed and memory|all with the same products|The paper says", pictures=("mpipemoe-speedup.svg",)),
    Entry("mpipemoe-why", "MPipeMoE", "What the answers hang on",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=why",), 8,
          text="""The same cluster with one property taken away, and with slower products."""),
    Entry("mpipemoe-memory", "MPipeMoE", "Memory against the bound, Table III",
          ("benchmarks/mpipemoe_memory.py --bin {bin} --svg={out}/mpipemoe-memory.svg",), 8,
          text="""Arenas of 108 compiled plans. Claim: reuse saves at least 97% of the paper's bound phi (Eq. 6); the paper reports
about 95%.""",
          after="""It can be more than the bound, because Eq. 4 keeps from begin to end what the memory planner gives to other values
in between.""",
          show="^ok .*saved of phi", pictures=("mpipemoe-memory.svg",)),
    Entry("mpipemoe-host", "MPipeMoE", "Overlap as predicted, measured",
          ("{bin}/moe-calibrate --quick -o {out}/cluster.json",
           "benchmarks/mpipemoe_host.py --bin {bin} --cluster={out}/cluster.json"), 240,
          text="""Layers on two ranks of this machine with emulated links, which take as long as the plan's cluster says while the
processors go on. Claim: the gain by 2 and 4 chunks is at least 0.9 times what `moe-sim --emulate-links` predicts.""",
          after="""Of a small gain an error of the step of 3% can halve what is gained: so gain - 1 is claimed in the mean only.""",
          needs=("quiet",)),
    Entry("mpipemoe-adaptive", "MPipeMoE", "Chunks learnt while the plan runs",
          ("{bin}/moe-calibrate --quick -o {out}/cluster.json",
           "benchmarks/mpipemoe_adaptive.py --bin {bin} --cluster={out}/cluster.json"), 180,
          text="""`moe-run --adaptive` on steps of six lengths. Claims: after 50 steps it is within 5% of the best number of chunks in
80% of the steps, with at most 12 trials. Longer runs are in GranularityTest, on modelled times.""",
          needs=("quiet",)),
    Entry("fastermoe-models", "FasterMoE", "Seven models, Fig. 12 and 13, Table 3",
          ("benchmarks/fastermoe.py --bin {bin} --parts=models --svg={out}/fastermoe",), 45,
          text="""Speed-ups over the baseline, beside the paper's. Claim: shadows, and shadows with the smart schedule, gain in every
model.""",
          after="""How uneven the routing is decides, and this routing is that of a late, very uneven layer: the next table has the
paper's figures, all three, at about the same skew.""",
          pictures=("fastermoe-models.svg",)),
    Entry("fastermoe-why", "FasterMoE", "By how uneven the routing is",
          ("benchmarks/fastermoe.py --bin {bin} --parts=why",), 30,
          text="""The paper's most on johnny is 1.95 (shadows), 1.40 (smart), 2.20 (both), and on trevor, whose model is
MoE-BERT-Wide, 4.74, 1.40 and 5.72."""),
    Entry("fastermoe-decisions", "FasterMoE", "Which experts to shadow",
          ("benchmarks/fastermoe.py --bin {bin} --parts=decisions",), 55,
          text="""500 iterations, 16 experts, every policy against the best of all 65536 sets. Claims: `simulate` is within 0.2% of
the best in the mean and no worse than Algorithm 1 and the prefix search, also in whole simulated steps.""",
          after="""By Eq. 7 and 8 themselves the prefix search is exact. These equations have one bandwidth and forget the exchange of
what is not a shadow; that is what `simulate` gains."""),
    Entry("fastermoe-orders", "FasterMoE", "Searched orders against the papers'",
          ("benchmarks/fastermoe.py --bin {bin} --parts=orders",), 60,
          text="""Plans whose order of launches is searched on other routing than what they meet. Claim: at most 2% longer than the
better of the papers' orders."""),
    Entry("fastermoe-host", "FasterMoE", "On the host: bytes, loads and FLOPs",
          ("benchmarks/fastermoe.py --bin {bin} --parts=host",), 20,
          text="""8 ranks, one expert with 60% of all choices, before and after shadows. Claims: results are verified; bytes, loads
and the slowest rank's FLOPs are what the counts predict.""",
          after="""All ranks share the machine's cores here, so that balance itself saves no time: what the step saves is exchanged
rows.""",
          needs=("quiet",)),
    Entry("auto-parm", "The best plan", "The choice against Parm",
          ("benchmarks/auto_papers.py --bin {bin} --papers=Parm --all --svg={out}/auto-parm.svg",), 600,
          text="""All 5832 layers of Table III, against Algorithm 1 (`parm-auto`). Claim: the choice is never slower.""",
          after="""The gain is that of chunks, which all but 64 layers have, most of them S1's: exchanges and products of a layer overlap,
which Parm's schedules let wait for each other. On A, where nearly all of a step is exchanges, that is least.""",
          pictures=("auto-parm.svg",)),
    Entry("auto-ppmoe", "The best plan", "The choice against PPMoE",
          ("benchmarks/auto_papers.py --bin {bin} --papers=PPMoE --svg={out}/auto-ppmoe.svg",), 60,
          text="""The whole models of Table 2, with their groups, pipelines and optimizer, each against what its name says. Claim: the
choice is never slower.""",
          after="""Dense models have nothing to choose. DPMoE 4/8/1 exchanges eight copies of each token, seven of which S1 does not
send.""",
          pictures=("auto-ppmoe.svg",)),
    Entry("auto-mpipemoe", "The best plan", "The choice against MPipeMoE",
          ("benchmarks/auto_papers.py --bin {bin} --papers=MPipeMoE --svg={out}/auto-mpipemoe.svg",), 110,
          text="""36 layers of Fig. 8, 9, 12 and 13, each with and without tensor cores, against PipeMoE and, in no more memory, MPipeMoE,
both in the paper's order of launches and in a searched one. Claim: the choice is never slower.""",
          after="""In the searched order PipeMoE is nearly all that there is to choose. Gains over the paper's order are of small layers in
one piece, whose exchanges run beside the gradients of weights.""",
          pictures=("auto-mpipemoe.svg",)),
    Entry("auto-fastermoe", "The best plan", "The choice against FasterMoE",
          ("benchmarks/auto_papers.py --bin {bin} --papers=FasterMoE --svg={out}/auto-fastermoe.svg",), 360,
          text="""A layer of each of the seven models in seven iterations of synthetic routing, against shadows with the smart schedule.
Claim: by what the search goes by the choice is never slower. The same plans link by link stand beside it.""",
          after="""Where routing is uneven shadows whose broadcasts overlap do without the smart schedule. Link by link the choice is slower in
iteration 0 of the smallest layer (0.90, two models have it): the search sees no gain in shadows there, the links do.""",
          pictures=("auto-fastermoe.svg",)),
    Entry("prediction", "Prediction against measurement", "73 configurations of six models",
          ("{bin}/moe-calibrate -o {out}/cluster.json",
           "benchmarks/prediction.py --bin {bin} --cluster={out}/cluster.json --steps=6 --svg={out}/prediction.svg --json={out}/prediction.json"), 900,
          text="""1 to 16 ranks, forward and training, capacity and dropless, f32 and f64, on a profile that was measured just before.
Wanted: R^2 of at least 0.98, a mean error of at most 10%.""",
          after="""65 of the configurations were looked at while the calibration's grid of sizes was chosen, 8 were added afterwards.
Of two rounds the lesser time counts, since what disturbs the machine only adds to a step.""",
          show=r"configurations: R\^2", pictures=("prediction.svg",), needs=("quiet",)),
    Entry("reference-mappings", "Prediction against measurement", "Published mappings of MoE training on H100",
          ("benchmarks/reference_mappings.py --bin {bin} --figures={out}/figures.json --svg={out}/reference-mappings.svg",), 3600,
          text="""Megatron Core's and NeMo's published mappings of 64 to 1024 H100: the throughput that `moe-sim` predicts for them
beside the measured one, and what `moe-plan` chooses instead. [Validation](Validation.md) explains the rows.""",
          pictures=("reference-mappings.svg",)),
    Entry("auto-host", "Prediction against measurement", "What --schedule=auto chooses, beside all other plans",
          ("benchmarks/auto_host.py --bin {bin} --out={out} --svg={out}/auto-host.svg",), 2500,
          text="""Layers on 2 to 8 ranks, on a profile that was measured just before: the chosen plan and all that could have been chosen
are run, in turns. Claim: it takes at most 10% longer than the fastest in at least 90% of at least 30 configurations. Noise is how far two
measurements of the chosen plan are apart.""",
          pictures=("auto-host.svg",), needs=("quiet",)),
    Entry("train", "Training curves", "A small GPT with MoE, 300 steps",
          ("benchmarks/train.py --bin {bin} --svg={out}/train.svg",), 100,
          text="""In f64, on one rank and on 8 under each schedule, with ZeRO-1, sequence parallelism, 1F1B and interleaved 1F1B.
Claims: every loss of every step is within 1e-4 of one rank's, relatively, and the curve falls.""",
          after="""In f32 shadows and ZeRO-1 part from the others by up to 3e-3, where rounding decides between two experts that score
alike.""",
          pictures=("train.svg",)),
    Entry("parm-host", "Host measurements", "Parm's schedules: redundant computation that is gone",
          ("benchmarks/parm_host.py --bin {bin} --rounds=5",), 300,
          text="""Ten layers on 4 and 8 ranks in one process, where communication is cheap and the baseline computes each token N_MP
times. Wanted: 1.6 times as fast with N_MP = 2, 2.8 with 4.""",
          needs=("quiet",)),
    Entry("parm-host-mpi", "Host measurements", "The same, one process a rank",
          ("benchmarks/parm_host.py --bin {bin} --backend=mpi --rounds=3 --only=P=4",), 240,
          text="""Over MPI what is exchanged is less too.""",
          needs=("quiet", "mpirun")),
    Entry("host-speed", "Host measurements", "A layer against plain products and copies",
          ("{bin}/host_speed {build}/benchmarks/switch-base-8.so",), 30,
          text="""Forward and backward of a layer of switch-base-8 on one thread. Wanted: the expert products at 90% of plain
`dnnl_sgemm`, the whole in at most 1.15 times products and copies.""",
          needs=("quiet",)),
    Entry("host-kernels", "Host measurements", "Kernels",
          ("{bin}/host_kernels",), 60,
          text="""Each kernel beside `memcpy` of as many bytes (memcpyOf) or a plain `dnnl_sgemm` (plainSgemm).""",
          needs=("quiet",)),
    Entry("compile-time", "Host measurements", "moe-compile",
          ("benchmarks/compile_time.py --bin {bin}",), 90,
          text="""From a model's configuration to the `.so`. Wanted: as long for 4096 ranks as for 8, and a whole model of 96 blocks,
in one micro-batch, in 10 s and 2 GB.""",
          after="""Micro-batches are written out one by one, so that time and memory grow with them; half of the third whole model is
the one-rank reference.""",
          needs=("quiet",)),
    Entry("simulator-speed", "Host measurements", "moe-sim",
          ("{bin}/simulator_speed",), 20,
          text="""Training steps of olmoe-1b-7b's layers on hgx-h100, one core, median of 11. Wanted: what the last column says.""",
          needs=("quiet",)),
    Entry("many-ranks", "Host measurements", "64 ranks on this machine",
          ("benchmarks/many_ranks.py --bin {bin}",), 30,
          text="""A step's time, and the memory of the process beside what the plan promises.""",
          needs=("quiet",)),
    Entry("planner-speed", "Planner speed", "Candidates of --schedule=auto",
          ("{bin}/planner_speed",), 20,
          text="""A layer of olmoe-1b-7b on hgx-h100, one core: schedules compiled, bounded by the closed form, and simulated with
their reports, each per second, and the whole search. Claims: 10000 bounds and 500 simulations a second.""",
          after="""Most of a search is orders: each candidate that may be best has its own searched before it is simulated.""",
          needs=("quiet",)),
    Entry("auto-regret", "The best plan", "What the search leaves out",
          ("env MOE_AUTO_CASES=200 {bin}/AutoScheduleTest --gtest_filter=*.Regret",), 4700,
          text="""200 random layers on eight clusters, half of them once more with too little memory for the choice: what is chosen
beside the fastest of the whole space, of which every candidate is simulated. Claims: at most 2% slower, 0.5% in the mean, and no bound
above a time."""),
    Entry("planner-models", "Planner speed", "DeepSeek-V3 on 1024 devices, and a layer on ever more ranks",
          ("benchmarks/planner_models.py --bin {bin}",), 180,
          text="""Whole processes, from the configuration to the plan. Of the model `--parallel` and `--schedule` are both left
open. Claims: at most 60 s and 4 GB, the same plan and reasons on one thread and on several, and a layer's search takes no
longer on 1024 ranks than on 128.""",
          after="""Up to 64 ranks orders of plans that depend on routing are searched for with uneven routing, which takes every rank
by itself. Most of the model's time goes to plans of all its blocks: three groups, three schedules, and at last all micro-batches.""",
          needs=("quiet",)),
    Entry("first-answer", "Planner speed", "moe-plan on the largest models and clusters",
          ("benchmarks/first_answer.py --bin {bin}",), 300,
          text="""Whole processes, from the configuration to the answer. Qwen3-235B-A22B on 256 to 2,048 devices and DeepSeek-V3 on 1,024 to
4,096. Claim: an answer in 30 s and 3 GB.""",
          needs=("quiet",)),
    Entry("estimates", "Planner speed", "Estimates of whole steps against compiled ones",
          ("benchmarks/estimates.py --bin {bin}",), 300,
          text="""300 random candidates over models, clusters, groups, micro-batches, recomputation, ZeRO, sequence parallelism, interleaving,
schedules, load bounds and element types. Claims: seconds at most 5% off on average and 15% at worst, memory 3% on average."""),
    Entry("groups-regret", "Planner speed", "moe-plan's choice beside all groups",
          ("benchmarks/groups_regret.py --bin {bin}",), 120,
          text="""Three models of 8 and 10 blocks on 16 and 32 devices. Every group is compiled as a whole, in its best options. Claim: the
choice takes at most 2% longer than the best of all."""),
    Entry("cuda-layer", "GPU", "Mixtral, Qwen3 and DeepSeek-V3",
          ("benchmarks/cuda_layer.py --compile={out}/plans --bin {bin}",
           "benchmarks/cuda_layer.py --plans={out}/plans --bin {bin} --json={out}/layer.json --svg={out}/cuda-layer.svg"), 1200,
          text="""Forward and backward by tokens, with balanced and skewed routing. Wanted: expert products at 90% of cuBLAS' speed,
the rest in at most 1.5 times what its bytes take, and faster than PyTorch.""",
          pictures=("cuda-layer.svg",), needs=("quiet", "gpu")),
]
