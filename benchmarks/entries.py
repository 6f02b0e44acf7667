"""Lists the benchmarks that benchmarks/run_all.py runs, with the texts of their pages in benchmarks/results.

To add a benchmark, add an Entry. It appears on the page of its section, in the order of the list.
"""
from typing import NamedTuple


class Entry(NamedTuple):
    """A row of the list. Texts are Markdown, with links relative to benchmarks/results/."""

    name: str  # the name of its files among the results
    section: str  # a key of SECTIONS
    title: str
    # They run one after the other in the repository's root. {bin} is the tools' folder, {build} its parent, {out} the entry's own folder.
    commands: tuple
    seconds: int  # about, on two quiet cores
    text: str  # before the output: the claims, and how to read the figures
    after: str = ""  # after the output: explains the figures
    # The page has the paragraphs of the output in which a line matches, and all claims. If this is empty, it has the whole output.
    show: str = ""
    last: tuple = ()  # patterns; if given, the page has only the last line that matches each of them, and all claims
    pictures: tuple = ()  # files that the commands write to {out}; the page has them in images/
    # "quiet": figures are times, so nothing else may run. "gpu": a GPU. Any other name is a program. The entry is skipped if one is missing.
    needs: tuple = ()


SECTIONS = {
    "Parm": """Parm (INFOCOM 2024) divides the tokens of a model-parallel group among its members, so that no token is computed twice. It
has two schedules, S1 and S2, and chooses the shorter one. The benchmarks compile its grid of layers and its two models, and simulate
them on profiles of its two testbeds. No constant was fitted to its tables. [What differs from the paper and
why](../Papers.md#parms-sweep-beside-the-paper).""",
    "PPMoE": """PPMoE (arXiv 2304.11414) puts the experts inside a tensor-parallel group, without any all-to-all, and adds pipeline
stages. The 13 settings of its Table 2 are whole models of up to 143B parameters on up to 256 V100. They are compiled, and simulated on
profiles of its clusters. [What the paper leaves open and what explains the differences](../Papers.md#ppmoes-tables).""",
    "MPipeMoE": """MPipeMoE (IPDPS 2023) cuts the tokens of a layer into n chunks. The exchanges of one chunk overlap with the
computation of others. It saves memory in four ways (S1 to S4): values for the backward are offloaded, exchanged again or computed
again. The benchmarks compile its layers, and simulate them on a profile of its 64 A100, with tensor cores (tf32) and without. The paper
does not say which of the compared systems used tensor cores. [What explains the differences](../Papers.md#mpipemoe-beside-the-paper).""",
    "FasterMoE": """FasterMoE (PPoPP 2022) copies popular experts to the ranks that have their tokens (shadows). It exchanges by groups
of neighbours, beside the computation of the experts (the smart schedule). The MoE layers of its seven models are compiled, and
simulated link by link on profiles of its two clusters. The routing is synthetic, with the statistics of recorded training. [What
explains the differences](../Papers.md#fastermoe-beside-the-paper).""",
    "The best plan": """The choice of `--schedule=auto` against each paper's own schedule, on the paper's grid and profile. Both steps
are simulated in closed form, with all launches of the plan; the search uses the same times. The choice may use the device's memory, or
as much memory as the paper's plan if that needs more. MPipeMoE exists to need less memory, so against it the choice may use no more
memory than its plan. Gains are geometric means.""",
    "Large runs": """DeepSeek-V3 on 1024 H100 and Qwen3-235B-A22B on 256 H100, simulated with and without what large runs use. Models
and tokens are the same in all rows of a table. The groups are not `moe-plan`'s choice. *Sums* and *gathers* are exchanges over
data-parallel ranks in a step, on a mean rank.""",
    "Prediction against measurement": """Steps that `moe-sim` predicts against steps that `moe-run` measures. Calibration measures
kernels and collectives of the machine, and none of the plans.""",
    "Training curves": """A model must learn the same on any number of ranks and with any schedule. All runs have one model and one text.""",
    "Host measurements": """Programs on the processors of one machine, each compared with a peer in the same run: plain BLAS calls, `memcpy`, or the
baseline's plan.""",
    "Planner speed": """The time to choose a plan for a model on a cluster.""",
    "GPU": """One layer in bf16 on a GPU beside cuBLAS, plain copies and PyTorch. This page has no figure of a GPU until the benchmark
has run on one. [benchmarks/README.md](../README.md#a-layer-on-a-gpu) explains the columns.""",
}

ENTRIES = [
    Entry("parm-sweep", "Parm", "5832 layers",
          ("{bin}/parm_sweep --svg={out}/parm",), 30,
          text="""Every layer of Table III on 8 devices of testbed A and on 8, 16 and 32 of B, forward and backward. Claims: no schedule
is slower than the baseline, and the choice between S1 and S2 loses at most 1% against the better one. Means by setting stand beside
Table IV's ranges.""",
          after="""S1, S2 and auto are never slower than the baseline. With N_MP = N_ESP = 1 they are the baseline. As in the paper,
sums of gradients over data-parallel ranks take no time. A is 24 to 34% too fast: compared with the all-to-all, its gathers take longer
here than on the paper's server. We have no measurement of that server. SAA gains more on B than in the paper, because many small sends
have no additional cost here.""",
          show="^Means of|^32 GPUs|^Algorithm 1|^testbed  cases",
          pictures=("parm-histogram.svg", "parm-wins.svg")),
    Entry("parm-models", "Parm", "BERT-Base and GPT-2 with MoE",
          ("benchmarks/parm_models.py --bin {bin}",), 35,
          text="""Whole training steps, on which the paper gains 2.98 to 3.15. Claims: no schedule is slower than the baseline, and auto
takes the better one.""",
          after="""The speed-up depends on N_MP, top-k and the number of MoE blocks. The text that we have gives none of them. "As
above" is N_MP = 4, top-2, capacity factor 1.2, four sequences, and every other block MoE. [More](../Papers.md#parms-models)."""),
    Entry("ppmoe-table2", "PPMoE", "Table 2",
          ("benchmarks/ppmoe.py --bin {bin} --parts=table2 --svg={out}/ppmoe-table2.svg",), 120,
          text="""Tokens a second and GPU of all settings beside the paper's. The paper leaves open how many sequences a micro-batch
has, so each setting is simulated in three ways. Claims: PPMoE beats DPMoE in the large setting in *plan*, DPMoE is slowest with
tensor parallelism of 8, and PPMoE has no all-to-all.""",
          after="""In *megatron*, DPMoE beats PPMoE in the large setting, because eight sequences of a micro-batch fit with recomputation,
and because gradients are summed by buckets. The sequences of a micro-batch decide the small setting. Without tensor parallelism they
need much memory: two of them fit in Megatron, and eight in our plans.""",
          show="^Ratios|^ +paper|^Tokens a second", pictures=("ppmoe-table2.svg",)),
    Entry("ppmoe-open", "PPMoE", "What the paper leaves open",
          ("benchmarks/ppmoe.py --bin {bin} --parts=open",), 20,
          text="""Throughput by sequences of a micro-batch and by micro-batches of a step, and the cost of the start-ups of exchanges.
Gradients are summed by buckets, as in DeepSpeed, so that start-ups take little time."""),
    Entry("ppmoe-parts", "PPMoE", "Parts of a forward step, Tables 1 and 3",
          ("benchmarks/ppmoe.py --bin {bin} --parts=parts",), 3,
          text="""The parts of a forward, beside the paper's measurement. One exchange takes 160 ms in Table 1. Here it takes 12 ms
pairwise, and 56 ms around the ring that the paper describes."""),
    Entry("mpipemoe-n", "MPipeMoE", "The best number of chunks, Fig. 12",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=n --svg={out}/mpipemoe",), 10,
          text="""GPT3-XL on 64 ranks. Claim: the best n rises with the tokens B, as Algorithm 1 assumes.""",
          after="""The paper's n changes at 8k and 22k. The thresholds depend on the time that a host thread needs to post the messages
of an exchange. If it needed none, four or eight chunks would be best from 1k on.""",
          show="^Best n|^   B", pictures=("mpipemoe-n.svg",)),
    Entry("mpipemoe-strategies", "MPipeMoE", "Strategies of reuse, Fig. 13",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=strategies --svg={out}/mpipemoe",), 10,
          text="""S1 to S4 by ranks N and tokens B. Claim: the choice of Eq. 10 takes at most 5% longer than the best strategy, in the
mean. The paper found S1 and S2 better on 8 ranks, and S4 better than S2 on 32 and 64. Each rate of products (tf32 and f32) agrees with
one half of this.""",
          pictures=("mpipemoe-strategies.svg",)),
    Entry("mpipemoe-speedups", "MPipeMoE", "Speed and memory, Fig. 8 and 9",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=speedups --svg={out}/mpipemoe",), 30,
          text="""Twelve layers against FastMoE (the baseline) and FasterMoE (two chunks). Claims: PipeMoE is never slower than FastMoE,
and MPipeMoE needs less memory.""",
          after="""Overlap alone cannot give the paper's factors. If exchanges hid all computation, or computation hid all exchanges, a
step would be at most 1.84 times as fast. If the other systems compute without tensor cores, the factors are above the paper's.""",
          show="^Speed and memory|all with the same products|The paper says", pictures=("mpipemoe-speedup.svg",)),
    Entry("mpipemoe-why", "MPipeMoE", "Sensitivity of the answers",
          ("benchmarks/mpipemoe.py --bin {bin} --parts=why",), 8,
          text="""The same cluster without one of its properties, and with slower products."""),
    Entry("mpipemoe-memory", "MPipeMoE", "Memory against the bound, Table III",
          ("benchmarks/mpipemoe_memory.py --bin {bin} --svg={out}/mpipemoe-memory.svg",), 8,
          text="""Arenas of 108 compiled plans. Claim: reuse saves at least 97% of the paper's bound phi (Eq. 6). The paper reports
about 95%.""",
          after="""Savings can be more than the bound. Eq. 4 keeps some values from begin to end, and the memory planner gives their
memory to other values in between.""",
          show="^ok .*saved of phi", pictures=("mpipemoe-memory.svg",)),
    Entry("mpipemoe-host", "MPipeMoE", "Predicted and measured overlap",
          ("{bin}/moe-calibrate --quick -o {out}/cluster.json",
           "benchmarks/mpipemoe_host.py --bin {bin} --cluster={out}/cluster.json"), 240,
          text="""Layers on two ranks of this machine with emulated links. A transfer takes as long as on the plan's cluster, and the
processors go on meanwhile. Claim: the gain from 2 and 4 chunks is at least 0.9 times the prediction of `moe-sim --emulate-links`.""",
          after="""If a gain is small, an error of 3% of the step can halve it. So the claim about gain - 1 is for the mean only.""",
          needs=("quiet",)),
    Entry("mpipemoe-adaptive", "MPipeMoE", "Chunks learnt while the plan runs",
          ("{bin}/moe-calibrate --quick -o {out}/cluster.json",
           "benchmarks/mpipemoe_adaptive.py --bin {bin} --cluster={out}/cluster.json"), 180,
          text="""`adaptive_chunks` on steps of six lengths. Claims: after 50 steps it is within 5% of the best number of chunks in
80% of the steps, with at most 12 trials. Longer runs are in GranularityTest, on modelled times.""",
          needs=("quiet",)),
    Entry("fastermoe-models", "FasterMoE", "Seven models, Fig. 12 and 13, Table 3",
          ("benchmarks/fastermoe.py --bin {bin} --parts=models --svg={out}/fastermoe",), 45,
          text="""Speed-ups over the baseline, beside the paper's. Claim: shadows gain in every model, and so do shadows with the smart
schedule.""",
          after="""The speed-ups depend on how uneven the routing is. This routing is that of a late, very uneven layer. In the next
table all three of the paper's figures appear at about the same skew.""",
          pictures=("fastermoe-models.svg",)),
    Entry("fastermoe-why", "FasterMoE", "Speed-up by skew of the routing",
          ("benchmarks/fastermoe.py --bin {bin} --parts=why",), 30,
          text="""The paper's largest speed-ups on johnny are 1.95 (shadows), 1.40 (smart) and 2.20 (both). On trevor, whose model is
MoE-BERT-Wide, they are 4.74, 1.40 and 5.72."""),
    Entry("fastermoe-decisions", "FasterMoE", "Which experts to shadow",
          ("benchmarks/fastermoe.py --bin {bin} --parts=decisions",), 55,
          text="""500 iterations, 16 experts, every policy against the best of all 65536 sets. Claims: `simulate` is within 0.2% of the
best in the mean, and no worse than Algorithm 1 and the prefix search, also in whole simulated steps.""",
          after="""By Eq. 7 and 8 themselves the prefix search finds the best set. These equations have one bandwidth, and leave out the
exchange of tokens whose experts are not shadows. `simulate` gains by modelling both."""),
    Entry("fastermoe-orders", "FasterMoE", "Searched orders against the papers'",
          ("benchmarks/fastermoe.py --bin {bin} --parts=orders",), 60,
          text="""The order of a plan's launches is searched with one routing, and the plan runs with another. Claim: a step takes at
most 2% longer than with the better of the papers' orders."""),
    Entry("fastermoe-host", "FasterMoE", "Bytes, loads and FLOPs on the host",
          ("benchmarks/fastermoe.py --bin {bin} --parts=host",), 20,
          text="""8 ranks, one expert with 60% of all choices, before and after shadows. Claims: results are verified, and bytes, loads
and the slowest rank's FLOPs are those that the counts predict.""",
          after="""All ranks share the machine's cores here, so a better balance saves no time. The step is shorter because fewer rows
are exchanged.""",
          needs=("quiet",)),
    Entry("auto-parm", "The best plan", "The choice against Parm",
          ("benchmarks/auto_papers.py --bin {bin} --papers=Parm --all --svg={out}/auto-parm.svg",), 600,
          text="""All 5832 layers of Table III, against Algorithm 1 (`parm-auto`). Claim: the choice is never slower.""",
          after="""The gain comes from chunks: exchanges and products of a layer overlap, while in Parm's schedules they wait for each
other. The choice has chunks in all but 64 layers, and in most of them with S1. The gain is least on A, where nearly all of a step is
exchanges.""",
          pictures=("auto-parm.svg",)),
    Entry("auto-ppmoe", "The best plan", "The choice against PPMoE",
          ("benchmarks/auto_papers.py --bin {bin} --papers=PPMoE --svg={out}/auto-ppmoe.svg",), 60,
          text="""The whole models of Table 2, with their groups, pipelines and optimizer. Each is compared with the schedule that its
name says. Claim: the choice is never slower.""",
          after="""Dense models have nothing to choose. DPMoE 4/8/1 exchanges eight copies of each token. S1 does not send seven of
them.""",
          pictures=("auto-ppmoe.svg",)),
    Entry("auto-mpipemoe", "The best plan", "The choice against MPipeMoE",
          ("benchmarks/auto_papers.py --bin {bin} --papers=MPipeMoE --svg={out}/auto-mpipemoe.svg",), 110,
          text="""36 layers of Fig. 8, 9, 12 and 13, each with and without tensor cores. The choice is compared with PipeMoE, and with
MPipeMoE in no more memory. Both have the paper's order of launches, and once more a searched one. Claim: the choice is never slower.""",
          after="""In the searched order, few candidates are faster than PipeMoE. The choice gains over the paper's order in small
layers in one piece. Their exchanges run beside the gradients of weights.""",
          pictures=("auto-mpipemoe.svg",)),
    Entry("auto-fastermoe", "The best plan", "The choice against FasterMoE",
          ("benchmarks/auto_papers.py --bin {bin} --papers=FasterMoE --svg={out}/auto-fastermoe.svg",), 360,
          text="""A layer of each of the seven models in seven iterations of synthetic routing, against shadows with the smart schedule.
Claim: in the times that the search uses, the choice is never more than 5% slower. The paper's schedule has 12 shadows and as many groups as
nodes, and the search takes the usual numbers of both. Link-level times of the same plans stand beside them.""",
          after="""If routing is uneven, shadows whose broadcasts overlap do not need the smart schedule. Link by link, the choice is
slower in iteration 0 of the smallest layer (0.91), which two models have. There the search sees no gain in shadows, but at link level
there is one.""",
          pictures=("auto-fastermoe.svg",)),
    Entry("large-buckets", "Large runs", "Gradients in buckets",
          ("benchmarks/large_runs.py --bin {bin} --only=buckets",), 240,
          text="""Claim: no other size of buckets is more than 0.5% faster than auto.""",
          after="""Buckets gain a quarter of a percent here, and nothing for Qwen3: sums run beside the backward, and start-ups are short
beside a step. [PPMoE's settings](../Papers.md#sums-of-gradients) gain up to 1.8 times."""),
    Entry("large-zero", "Large runs", "Stages of ZeRO",
          ("benchmarks/large_runs.py --bin {bin} --only=zero",), 300,
          text="""Claim: each stage of ZeRO needs no more memory than the one before it.""",
          after="""In a pipeline, ZeRO-2 and ZeRO-3 exchange in each micro-batch, and a device has few of the parameters anyway. In one stage
they make room: there ZeRO-1 needs three times the memory of ZeRO-3."""),
    Entry("large-context", "Large runs", "Divided sequences",
          ("benchmarks/large_runs.py --bin {bin} --only=context",), 240,
          text="""All rows have the same number of tokens in a step. Claim: divided sequences need less memory.""",
          after="""There are few long sequences in a step. Whole ones make 4 micro-batches, and the pipelines wait for 79% and 64% of the step.
Divided ones make 16. That gains more than the exchange of keys costs. A ring needs as much memory as gathered keys here. The
command above a table is that of its first row; divided sequences have a quarter of its dp."""),
    Entry("by-node", "Large runs", "Tokens that go once",
          ("benchmarks/by_node.py --bin {bin}",), 200,
          text="""One layer of DeepSeek-V3 and of Qwen3 235B on 64 H100, with `once:rank` and `once:node`, alone and in the best plan.
Claims: bytes between nodes follow from the nodes that a token meets, and `once:node` is in the best plan."""),
    Entry("long-context", "Large runs", "Sequences of 131,072 tokens",
          ("{bin}/moe-plan qwen3-30b-a3b 64 hgx-h100 --seq=131072 --global-batch=32",), 120,
          text="""`moe-plan` divides Qwen3-30B-A3B and its sequences over 64 H100.""",
          show="^groups|^memory|^the best by"),
    Entry("by-node-host", "Prediction against measurement", "Exchanges by node",
          ("{bin}/moe-calibrate --quick -o {out}/cluster.json",
           "benchmarks/by_node_host.py --bin {bin} --cluster={out}/cluster.json"), 300,
          text="""Layers on four and eight ranks of this machine with emulated links of two speeds, with `once:rank`, `once:node` and
`hier`. Claim: each gain is within 10% of the prediction.""",
          show="^ok",
          needs=("quiet",)),
    Entry("overlap-host", "Prediction against measurement", "Windows of two micro-batches",
          ("{bin}/moe-calibrate --quick -o {out}/cluster.json",
           "benchmarks/overlap_host.py --bin {bin} --cluster={out}/cluster.json"), 420,
          text="""A small Mixtral on two and four ranks of this machine with emulated links, in `1f1b` and in `1f1b-overlap`. Claims: the
sign of the gain is predicted wherever the gain is more than 3%, and the gain is within 10% of the prediction in the mean.""",
          needs=("quiet",)),
    Entry("prediction", "Prediction against measurement", "73 configurations of six models",
          ("{bin}/moe-calibrate -o {out}/cluster.json",
           "benchmarks/prediction.py --bin {bin} --cluster={out}/cluster.json --steps=6 --svg={out}/prediction.svg --json={out}/prediction.json"), 900,
          text="""1 to 16 ranks, forward and training, capacity and dropless, f32 and f64, on a profile that was measured just before.
Wanted: R^2 of at least 0.98, and a mean error of at most 10%.""",
          after="""We looked at 65 of the configurations when we chose the calibration's grid of sizes, and added 8 later. Each
configuration is measured in two rounds. The lesser time counts, because disturbances of the machine only add to a step.""",
          show=r"configurations: R\^2", pictures=("prediction.svg",), needs=("quiet",)),
    Entry("launch-rates", "Prediction against measurement", "Rates of the largest launches",
          ("benchmarks/launch_rates.py --prices={bin}/price_launches",), 2,
          text="""TFLOP/s of experts' products and of attention in three models, as the cost model predicts them. The curves come
from [measurements of single devices](../../docs/Clusters.md#shipped-profiles)."""),
    Entry("exchanges-over-nodes", "Prediction against measurement", "Exchanges over nodes of 8 H100",
          ("benchmarks/exchanges_over_nodes.py --prices={bin}/price_exchanges",), 2,
          text="""Bus bandwidth by size and number of nodes, as the cost model predicts it for hgx-h100. Claim: link level and closed
form agree within 10%.""",
          after="""[The cost model](../../docs/CostModel.md#public-figures-over-several-nodes) has public figures beside predictions."""),
    Entry("auto-host", "Prediction against measurement", "The choice of --schedule=auto beside all other plans",
          ("benchmarks/auto_host.py --bin {bin} --out={out}",), 2500,
          text="""Layers on 2 to 8 ranks, on a profile that was measured just before. The chosen plan and all plans that the search
could have chosen run in turns. Claim: in at least 90% of at least 30 configurations, the chosen plan takes at most 10% longer than the
fastest. Noise is the difference between two measurements of the chosen plan.""",
          needs=("quiet",)),
    Entry("train", "Training curves", "A small GPT with MoE, 300 steps",
          ("benchmarks/train.py --bin {bin} --svg={out}/train.svg",), 100,
          text="""In f64, on one rank and on 8 under each schedule, with ZeRO-1, sequence parallelism, 1F1B and interleaved 1F1B.
Claims: every loss of every step is within 1e-4 of one rank's, relatively, and the curve falls.""",
          after="""In f32, shadows and ZeRO-1 differ from the others by up to 3e-3. There rounding decides between two experts with
nearly equal scores.""",
          pictures=("train.svg",)),
    Entry("parm-host", "Host measurements", "Redundant computation that Parm's schedules avoid",
          ("benchmarks/parm_host.py --bin {bin} --rounds=5",), 300,
          text="""Ten layers on 4 and 8 ranks in one process. Communication is cheap there, and the baseline computes each token N_MP
times. Wanted: 1.6 times as fast with N_MP = 2, and 2.8 times with 4.""",
          needs=("quiet",)),
    Entry("parm-host-mpi", "Host measurements", "Redundant computation, one process for each rank",
          ("benchmarks/parm_host.py --bin {bin} --backend=mpi --rounds=3 --only=P=4",), 240,
          text="""The ranks exchange over MPI. Parm's schedules also send fewer bytes there.""",
          needs=("quiet", "mpirun")),
    Entry("layer-torch", "Host measurements", "A layer of PyTorch",
          ("python3 benchmarks/layer_torch.py --build {build}",), 90,
          text="""`moeplan.torch.PlanModule` with S1 beside the same layer written by hand in PyTorch, which exchanges in the order of
DeepSpeed with tensor parallelism. One process a rank, one thread each, over gloo; forward and backward. Wanted: 1.8 times as fast with
N_MP = 2, 3.3 times with 4, and less than 2% of the step outside the runtime.""",
          needs=("quiet", "torchrun")),
    Entry("host-speed", "Host measurements", "A layer against plain products and copies",
          ("{bin}/host_speed {build}/benchmarks/switch-base-8.so",), 30,
          text="""Forward and backward of a layer of switch-base-8 on one thread. Wanted: the expert products at 90% of the speed of
plain `dnnl_sgemm`, and the whole step in at most 1.15 times the time of products and copies.""",
          needs=("quiet",)),
    Entry("host-kernels", "Host measurements", "Kernels",
          ("{bin}/host_kernels",), 60,
          text="""Each kernel beside `memcpy` of as many bytes (memcpyOf) or a plain `dnnl_sgemm` (plainSgemm).""",
          needs=("quiet",)),
    Entry("compile-time", "Host measurements", "moe-compile",
          ("benchmarks/compile_time.py --bin {bin}",), 90,
          text="""From a model's configuration to the `.so`. Wanted: the same time for 4096 ranks as for 8; and a whole model of 96
blocks, in one micro-batch, in 10 s and 2 GB. The last column is the size of the `.so`.""",
          after="""Half of the third whole model is the one-rank reference. A loop stands for most of 256 micro-batches and more, so time
and size do not grow with their number. 16 and 32 are too few for a loop on 16 stages, and are written out.""",
          needs=("quiet",)),
    Entry("simulator-speed", "Host measurements", "moe-sim",
          ("{bin}/simulator_speed",), 20,
          text="""Training steps of olmoe-1b-7b's layers on hgx-h100, one core, median of 11. The last column has the wanted values.""",
          needs=("quiet",)),
    Entry("many-ranks", "Host measurements", "64 ranks on this machine",
          ("benchmarks/many_ranks.py --bin {bin}",), 30,
          text="""A step's time, and the memory of the process beside the memory that the plan promises.""",
          needs=("quiet",)),
    Entry("planner-speed", "Planner speed", "Candidates of --schedule=auto",
          ("{bin}/planner_speed",), 20,
          text="""A layer of olmoe-1b-7b on hgx-h100, one core. Three rates are measured: schedules compiled, bounded by the closed
form, and simulated with their reports. The time of the whole search is measured too. Claims: 10000 bounds and 500 simulations a second.""",
          after="""Most of the time of a search goes to orders. Each candidate that may be the best has its own order searched before it
is simulated.""",
          needs=("quiet",)),
    Entry("auto-regret", "The best plan", "What the search leaves out",
          ("env MOE_AUTO_CASES=200 {bin}/AutoScheduleTest --gtest_filter=*.Regret",), 4700,
          text="""200 random layers on eight clusters. Half of them are searched once more with too little memory for the first choice.
The choice is compared with the fastest candidate of the whole space, of which every candidate is simulated. Claims: the choice is at
most 2% slower, and 0.5% in the mean, and no bound is above a simulated time.""",
          last=("^[0-9]+ cases", "^simulated", "^bound")),
    Entry("planner-models", "Planner speed", "DeepSeek-V3 on 1024 devices, and one layer on 8 to 1024 ranks",
          ("benchmarks/planner_models.py --bin {bin}",), 180,
          text="""Whole processes, from the configuration to the plan. For the model, `--parallel` and `--schedule` are both left open.
Claims: at most 60 s and 4 GB, and the same plan and reasons on one thread and on several. A layer's search takes no longer on 1024
ranks than on 128.""",
          after="""Up to 64 ranks, if a plan depends on routing, its order is searched with uneven routing. This simulates every rank
separately. Most of the model's time goes to plans of all its blocks: three groups, three schedules, and at last all micro-batches.""",
          needs=("quiet",)),
    Entry("first-answer", "Planner speed", "moe-plan on the largest models and clusters",
          ("benchmarks/first_answer.py --bin {bin}",), 300,
          text="""Whole processes, from the configuration to the answer. Qwen3-235B-A22B on 256 to 2,048 devices and DeepSeek-V3 on
1,024 to 4,096. Claim: an answer in 30 s and 3 GB.""",
          needs=("quiet",)),
    Entry("estimates", "Planner speed", "Estimates of whole steps against compiled ones",
          ("benchmarks/estimates.py --bin {bin}",), 300,
          text="""300 random candidates over models, clusters, groups, micro-batches, recomputation, ZeRO, sequence parallelism,
interleaving, schedules, load bounds and element types. Claims: seconds are at most 5% off on average and 15% at worst, and memory 3% on
average."""),
    Entry("groups-regret", "Planner speed", "moe-plan's choice compared with all other groups",
          ("benchmarks/groups_regret.py --bin {bin}",), 120,
          text="""Three models of 8 and 10 blocks on 16 and 32 devices. Every group is compiled as a whole, with its best options.
Claim: the choice takes at most 2% longer than the best of all."""),
    Entry("cuda-layer", "GPU", "Mixtral, Qwen3 and DeepSeek-V3",
          ("benchmarks/cuda_layer.py --compile={out}/plans --bin {bin}",
           "benchmarks/cuda_layer.py --plans={out}/plans --bin {bin} --json={out}/layer.json --svg={out}/cuda-layer.svg"), 1200,
          text="""Forward and backward by tokens, with balanced and skewed routing. Wanted: expert products at 90% of cuBLAS' speed, all
other ops in at most 1.5 times the time that their bytes take, and a step faster than PyTorch's.""",
          pictures=("cuda-layer.svg",), needs=("quiet", "gpu")),
]
