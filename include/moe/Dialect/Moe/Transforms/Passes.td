//===- Passes.td - passes of the moe dialect -----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoePartition : Pass<"moe-partition", "::mlir::ModuleOp"> {
  let summary = "divide a model graph over the ranks, in the baseline schedule";
  let description = [{
    Rewrites every function from global tensors to the program of one rank, for the groups of the module's `moe.parallel`.
    The schedule is the baseline of Parm (section II): gate and dispatch on every model-parallel member, ESP-AllGather,
    EP-AlltoAll, expert shard, ESP-AllReduce, EP-AlltoAll, ESP-Split, combine. Arguments and results get their
    `moe.layout` and the types of their shards. `moe.to_varying` is inserted where an op needs a varying operand.

    With `reference` the pass makes the same model for one rank, to compare with. It is routed in the same groups of
    tokens.

    Before -> after, for `#moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>`:

    ```mlir
    %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2) {..} : (tensor<64x8xf32>, ..)
    // ->
    %logits = moe.matmul %x, %g : (tensor<16x8xf32>, ..)
    %scores, %experts, %slots, %weights, %counts, %aux = moe.route %logits {capacity = 4 : i64} : ..
    %d = moe.dispatch %x, %slots : .. -> tensor<4x4x8xf32>
    %h = moe.all_to_all %d over <"ep", 4, 1> {concat_dim = 1 : i64, split_dim = 0 : i64} : ..
    ```
  }];
  let options = [
    Option<"reference", "reference", "bool", /*default=*/"false", "Make the model for one rank instead of for all ranks of the module">,
    Option<"groups", "groups", "int64_t", /*default=*/"0",
           "Number of routing groups in the whole model; 0: one for each token shard">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSetCluster : Pass<"moe-set-cluster", "::mlir::ModuleOp"> {
  let summary = "tell later passes about the cluster";
  let description = [{
    Sets the module's `moe.cluster`. It replaces one that is there.

    Example: `moe-opt --pass-pipeline='builtin.module(moe-set-cluster{rates="#moe.cluster<node_ranks = 4>"},..)'`
  }];
  let options = [Option<"rates", "rates", "std::string", /*default=*/"\"#moe.cluster<node_ranks = 8>\"", "The rates, as a #moe.cluster">];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeWeighHidden : Pass<"moe-weigh-hidden", "::mlir::func::FuncOp"> {
  let summary = "multiply the hidden rows of experts by the weights of the routing, not their results";
  let description = [{
    A token's result is `sum_j weights[j] W2 h_j`, where `h_j` are the hidden rows of its experts. This pass computes
    `sum_j W2 (weights[j] h_j)` instead. Then the backward does not need `W2 h_j`: the gradient of a weight is that of
    `weights[j] h_j` times `h_j`. So the results of the experts are neither kept nor computed again, nor are their
    exchanges. The weights travel to the experts as rows of one column.

    The pass runs after the rewrites of layers and does not depend on them, in plans that compute blocks again. It is for
    dropless layers whose experts have fewer hidden columns than the model, and no bias behind their last product. It
    leaves layers with chunks of rows or with shadows as they are.

    Before -> after:

    ```mlir
    %o = moe.grouped_matmul %h, %w2 counts(%n) : ..
    %y = moe.combine %o, %slots weights(%w) : ..
    // ->
    %one = moe.fill {value = 1.0 : f64} : tensor<16x1xf32>
    %wr = moe.dispatch %one, %slots weights(%w) : .. -> tensor<32x1xf32>
    %hw = moe.row_scale %h, %wr : ..
    %o = moe.grouped_matmul %hw, %w2 counts(%n) : ..
    %y = moe.combine %o, %slots : ..
    ```
  }];
}

def MoeSequenceParallel : Pass<"moe-sequence-parallel", "::mlir::func::FuncOp"> {
  let summary = "compute norms, dropout and residual sums on each rank's part of the tokens";
  let description = [{
    Megatron's sequence parallelism (Korthikanti et al., 2022) over mp. The pass does not depend on the schedule that made
    the program.

    Some ops work row by row (MoeRowwiseOpInterface), such as norms. If such an op takes the result of an all_reduce over
    mp, the all_reduce becomes a reduce_scatter of rows and an all_gather. The op then works on its member's part of the
    rows, and the all_gather moves after it. Its other row operands are sliced.

    So between the products that are divided over mp, each member has only its part of the rows, and keeps only that part
    for the backward. An all_gather comes before the next product. The exchanged bytes stay the same.

    The pass runs after the rewrites of layers, whose gathers of rows it treats the same way, and before moe-cut-stages
    and moe-differentiate. If there is nothing to divide, a warning says so.

    Before -> after, with mp = 2:

    ```mlir
    %s = moe.all_reduce %p over <"mp", 2, 1> : .. -> tensor<16x8xf32>
    %r = moe.add %x, %s : tensor<16x8xf32>
    %n = moe.norm %r, %gamma {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : ..
    // ->
    %s = moe.reduce_scatter %p over <"mp", 2, 1> {dim = 0 : i64} : .. -> tensor<8x8xf32>
    %xs = moe.slice %x over <"mp", 2, 1> {dim = 0 : i64} : .. -> tensor<8x8xf32>
    %r = moe.add %xs, %s : tensor<8x8xf32>
    %ns = moe.norm %r, %gv {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : ..
    %n = moe.all_gather %ns over <"mp", 2, 1> {dim = 0 : i64} : .. -> tensor<16x8xf32>
    ```
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeInsertToVarying : Pass<"moe-insert-to-varying", "::mlir::func::FuncOp"> {
  let summary = "cast operands to the SPMD states that their ops need";
  let description = [{
    For passes that rewrite an SPMD program without looking at states. If an operand is replicated and its op needs it to
    vary, the pass inserts a `moe.to_varying`. All users share one such cast.
  }];
}

def MoeVerifySpmd : Pass<"moe-verify-spmd", "::mlir::func::FuncOp"> {
  let summary = "reject programs whose SPMD states do not fit";
  let description = [{
    First the pass finds, from the layouts of the arguments, over which groups each value varies. It reports an operand in
    a state that its op does not take, and a result that does not have its layout. Such a fault is, for example, a missing
    all-reduce or a block of tokens that was not split. The axes are those of the module's moe.parallel, divided further
    by the groups of the program. A group that does not fit the others is an error (see `#moe.parallel`).

    Then it finds, for each axis, how each varying value is placed: as equal copies, as shards of a dimension, or as
    partial sums (Placement.h). These are errors:

    - a sum of copies or of shards;
    - partial sums where an op or a result needs the whole value: in an activation, a product with other partial sums, a
      broadcast, moe.assume_replicated, or a result of the program.

    Where no rule gives a value's placement, the pass concludes nothing from it.
  }];
}

def MoeBucketParameters : Pass<"moe-bucket-parameters", "::mlir::func::FuncOp"> {
  let summary = "put parameters side by side into buckets, and shard these over data-parallel ranks";
  let description = [{
    Parameters of one kind become one 1-D argument, a *bucket*, of which they are pieces (moe.unpack). Two parameters are
    of one kind if they have the same element type, decay, stage and SPMD states. A bucket takes parameters in the order
    of their first uses until it has `bytes` bytes. `moe.pieces` of the argument says which they are.

    So the backward has one exchange for the gradients of a bucket, and the optimizer one update. No data is copied: the
    gradients are computed in their places in the bucket.

    With `zero` a bucket is divided over dp, and one of experts over edp (Rajbhandari et al., SC 2020). The argument is
    the rank's part, and so are the optimizer's states. Where the group does not divide a bucket, it is filled up with
    zeros. The stages differ in when parameters are gathered and gradients reduce-scattered, by micro-batch:

    - 1: both once a step.
    - 2: parameters once a step, gradients once for each micro-batch.
    - 3: parameters before their first use in the forward, and again in the backward, of each micro-batch. Gradients once
      for each micro-batch. The backward gathers again because the gather's `moe.residual` is recommunicate.

    With `ranks` a block of neighbouring ranks has all parts of a bucket (hybrid sharding, HSDP). Gradients are summed
    over the blocks as well, each part on its own.
  }];
  let options = [
    Option<"bytes", "bytes", "int64_t", /*default=*/"0", "Bytes after which a bucket takes no more parameters">,
    Option<"zero", "zero", "int64_t", /*default=*/"0", "The stage of ZeRO: 0 to 3">,
    Option<"ranks", "ranks", "int64_t", /*default=*/"0",
           "Divide buckets over blocks of so many neighbouring ranks. 0: over all">,
    Option<"decays", "decays", "bool", /*default=*/"true",
           "Whether the optimizer decays parameters, so that those that never decay need buckets of their own">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeAccumulate : Pass<"moe-accumulate", "::mlir::func::FuncOp"> {
  let summary = "make a step of several micro-batches";
  let description = [{
    Repeats the ops that depend on the inputs of an SPMD program, once for each of n micro-batches. An input [S, ..]
    becomes [n, S, ..]. Losses and metrics become their means over the micro-batches. Ops that depend only on parameters
    are not repeated. So the gradients of all micro-batches are first added up, and then summed over ranks once.

    The ops of micro-batch i have the attribute `moe.micro_batch`. The ops that moe-differentiate builds for them get it
    too.

    A mean may be divided by a count, such as moe.label_count. The count is taken once, over the input of the whole step.
    Each micro-batch divides by the mean of the counts. So a mean over labelled tokens is the mean over the whole step,
    however the labels are spread over micro-batches.

    The program holds the last micro-batch first. So the backward that moe-differentiate appends begins with micro-batch
    0, and each gradient is added to the gradients of the micro-batches before it. Later, moe-order-micro-batches moves
    the forward and the backward of each micro-batch together.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"1", "Number of micro-batches of a step">,
    Option<"written", "written", "int64_t", /*default=*/"0",
           "How many of them are written, if plan-roll-loop makes a loop that stands for the others. 0: all">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSplitBackward : Pass<"moe-split-backward", "::mlir::func::FuncOp"> {
  let summary = "mark the gradients of weights in the backward of each stage";
  let description = [{
    The backward of a stage hands the gradient of its input to the stage before it. The pass finds the ops that this
    gradient needs. It marks all other ops of the backward with the work `weights`: the stage before does not wait for
    them. So moe-order-micro-batches may put them off (zero bubble, Qi et al., ICLR 2024). Gradients of weights are sums
    over micro-batches, and keep their order.

    The first stage hands nothing on. Its backward goes as far as the gradient of the first op of the forward.

    Ops that make or use values of a ring (`moe.ring`) stay in the backward, since another value takes their place. With
    `whole-repeated`, ops that need values which the backward computes again stay in the backward. Otherwise these
    values live until the ops that were put off.
  }];
  let options = [
    Option<"wholeRepeated", "whole-repeated", "bool", /*default=*/"false",
           "Mark no op that needs values which are computed again">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeRepeatMicroBatches : Pass<"moe-repeat-micro-batches", "::mlir::func::FuncOp"> {
  let summary = "write more micro-batches like the second of three";
  let description = [{
    Takes a step of which three micro-batches are written (`written` of moe-accumulate) and writes the first `micro-batches`
    of the step. The second one stands for all but the first and the last. So the passes before this one take the same
    time for any number of micro-batches.

    The last two micro-batches have to be alike. Their ops take the same values, values of their own micro-batch, or
    values that the micro-batch before hands on: sums of gradients, sums of losses, and the number of the step. Ops of no
    micro-batch may use values of the last one only.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"3", "How many micro-batches are written then">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeOrderMicroBatches : Pass<"moe-order-micro-batches", "::mlir::func::FuncOp"> {
  let summary = "order the micro-batches, and the stages of a pipeline";
  let description = [{
    Without stages, the forward and the backward of one micro-batch come before those of the next one. So the values that
    a micro-batch keeps for its backward are free before the next micro-batch keeps its own.

    With stages (moe-cut-stages) the pass orders units. A unit is one micro-batch in one stage: its forward, its backward
    or, after moe-split-backward, the gradients of its weights. A unit comes after the units whose values it needs.

    - `1f1b`: a device does forwards until the first backward arrives, then one forward and one backward in turn. With
      several stages for each device, stage s is on device s mod devices, and the order is interleaved 1F1B (Narayanan et
      al., SC 2021, section 2.2). The number of micro-batches is then a multiple of devices.
    - `1f1b-overlap`: 1F1B, in which a device orders the ops of a forward and of the next backward together, so that
      exchanges of one run beside computation of the other. It keeps one micro-batch of a stage more than interleaved
      1F1B. On one device it orders the forward of a micro-batch and the backward of the one before together.
    - `zb-h1` (Qi et al., ICLR 2024): 1F1B, in which device d puts the gradients of weights off for d micro-batches. The
      bubble is about a third of that of 1F1B. The first device keeps as many micro-batches as in 1F1B, and the others
      keep no more. It needs one stage for each device.
    - `zb-v` (the same): each device has two stages, s and 2 devices - 1 - s. So the device with the first stage has the
      last one, too. The order is the fastest of several list schedules. A device keeps as much as the first device of
      1F1B.
    - `dualpipe-v` (DeepSeek-AI, 2025): the same two stages. A forward of one micro-batch stands beside a backward of
      another one. It needs two micro-batches for each device.
    - `search`: the fastest of the orders above that the number of stages allows, and of list schedules.

    `zb-v` and `search` time the units by the costs of their ops at the rates of `moe.cluster`.

    What belongs to no micro-batch but needs them, such as sums of gradients over ranks and the optimizer, comes behind
    all of them. But where a device has done all backwards of one of its stages and has others to do, it comes as soon as
    the device need not wait for it.

    `side-by-side` makes one micro-batch of so many neighbours: a device orders the ops of their forwards together, and
    those of their backwards. So exchanges of one run beside computation of another, as where a micro-batch of several
    sequences is cut into chunks. All orders are then of these larger micro-batches. Rings of buffers (`moe.ring`) of
    neighbours get names of their own, because their turns do not fit into one order.

    `most-kept` limits what a device keeps. A stage keeps of a micro-batch what its backward needs of forwards, and what
    its gradients of weights need of both. It keeps this from the forward until the gradients of weights are done.
    `zb-v` and `search` take the fastest order within the limit. The pass fails if the order keeps more than the limit.
  }];
  let options = [
    Option<"devices", "devices", "int64_t", /*default=*/"1", "Number of devices of the pipeline; it divides the number of stages">,
    Option<"mostKept", "most-kept", "int64_t", /*default=*/"0", "Most bytes that a device of a pipeline keeps for gradients; 0: no limit">,
    Option<"sideBySide", "side-by-side", "int64_t", /*default=*/"1", "Micro-batches whose ops are ordered together; it divides their number">,
    Option<"order", "order", "::mlir::moe::PipelineOrder", /*default=*/"::mlir::moe::PipelineOrder::OneForwardOneBackward",
           "Order of the units of a pipeline",
           [{::llvm::cl::values(
             clEnumValN(::mlir::moe::PipelineOrder::OneForwardOneBackward, "1f1b", "One forward, one backward"),
             clEnumValN(::mlir::moe::PipelineOrder::Overlapped1F1B, "1f1b-overlap", "1F1B with forwards beside backwards"),
             clEnumValN(::mlir::moe::PipelineOrder::ZbH1, "zb-h1", "1F1B with postponed weight gradients"),
             clEnumValN(::mlir::moe::PipelineOrder::ZbV, "zb-v", "Two stages on a device, with split backwards"),
             clEnumValN(::mlir::moe::PipelineOrder::DualPipeV, "dualpipe-v", "Forwards beside backwards, in a V"),
             clEnumValN(::mlir::moe::PipelineOrder::Search, "search", "The fastest that is found"))}]>,
  ];
}

def MoeCutStages : Pass<"moe-cut-stages", "::mlir::func::FuncOp"> {
  let summary = "cut a forward program into the stages of a pipeline";
  let description = [{
    Sets `moe.stage` on the ops of a forward SPMD program. Stages are consecutive, and the slowest stage takes as little
    time as possible. The time of a stage is the time of its ops plus the time of the values that it receives. Ops are
    timed by their costs at the rates of `moe.cluster`, with tokens that choose experts evenly.

    The pass cuts only where no more bytes are handed over than at the places next to it: between the blocks of the model,
    and between the parts of a block. Ops that need no inputs, and ops that cost next to nothing, belong to no stage. Each
    stage that needs their results computes them itself.

    The pass runs after the passes that make the schedule, and before moe-accumulate and moe-differentiate. The ops that
    these two make belong to the stages of the ops that they are made from.

    With `stages=0` each part between two places to cut is a stage. The function's `moe.part_bytes` then says how many
    bytes each part receives.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"1", "Number of stages; 0: as many as possible">,
    ListOption<"boundaries", "boundaries", "int64_t",
               "The number of the first part of each stage, then the number of parts, which is checked; without it the "
               "slowest stage takes as little time as possible">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeRecomputeBlocks : Pass<"moe-recompute-blocks", "::mlir::func::FuncOp"> {
  let summary = "keep fewer values for the backward, and compute the others again";
  let description = [{
    Activation recomputation by blocks. Sets `moe.residual` on the ops of the blocks of a forward SPMD program: to
    recompute, or to recommunicate for an exchange. Three kinds of ops keep their results:

    - ops that hand a result to another block;
    - ops after the last block (the head and the loss);
    - ops that have `moe.residual` already.

    The pass finds the ends of blocks by the bytes that are handed over. A candidate is a place where moe-cut-stages may
    cut. On both sides of it more bytes are handed over, or none. The pass takes the largest set of candidates at which
    about the same number of bytes is handed over.

    With `selective` only ops that move memory are computed again, such as norms, activations and permutations. Products,
    attention and exchanges keep their results.

    With `keep-from` an op keeps its results if it takes so many times as long as it takes to write them to memory, at the
    rates of `moe.cluster`. A product takes long for its bytes if it sums over many columns. So attention and the product
    behind it are kept, and the products of a latent attention, whose results are wide, are computed again.
  }];
  let options = [
    Option<"selective", "selective", "bool", /*default=*/"false", "Compute again only ops that move memory">,
    Option<"keepFrom", "keep-from", "double", /*default=*/"0",
           "Keep results that take so many times as long to compute as to write; 0: none">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSplitStages : Pass<"moe-split-stages", "::mlir::ModuleOp"> {
  let summary = "make a program for each device of a pipeline";
  let description = [{
    Divides a program whose ops have `moe.stage` among the members of the group `pp`. Member d computes the ops of the
    stages s with s mod pp = d, in the program's order. moe-order-micro-batches may have put stages elsewhere.

    - An op without a stage is computed where its largest operand is. Such an op adds up values of two stages, or updates
      a parameter.
    - An op that needs only arguments is repeated on each member that uses it.
    - A value that another member uses is sent once (moe.send) and received (moe.receive). Sends and receives are in the
      order of the whole program, so no order of the members' streams can hang.
    - An argument goes to each member that uses it. So does the result that updates it (`moe.updates`). A head that is
      tied to the embedding gets its new value from the member that updates it.

    The programs are named stage0, stage1, .. and `moe.ranks` says which ranks run them. With pp = 1 nothing changes.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeDifferentiate : Pass<"moe-differentiate", "::mlir::func::FuncOp"> {
  let summary = "append the backward program";
  let description = [{
    Turns `f(args) -> results` into `f(args, cotangents) -> (results, gradients)`. Each floating-point result gets a
    cotangent argument. Each argument through which a gradient flows gets a gradient result. Both have the layout of the
    value that they belong to. If a result has the role `loss`, its cotangent is 1, and the other results have no
    cotangents.

    The backward is the adjoint of each op, in reverse order. So it follows the schedule of the forward.

    The backward also needs values of the forward. `moe.residual` on the op that makes such a value says how it gets
    there:

    - it is kept;
    - it is copied to the host (moe.offload) and back (moe.fetch);
    - the same ops compute it again, just before it is needed.

    The adjoint of an op has the op's chunk (`moe.chunk`) and ring (`moe.ring`). The gradients of a ring's values form a
    ring too. A value that is kept leaves its ring.

    Before -> after:

    ```mlir
    func.func @f(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.scale %a {factor = 2.0 : f64} : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    // ->
    func.func @f(%a: tensor<4x8xf32>, %ct: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %0 = moe.scale %a {factor = 2.0 : f64} : tensor<4x8xf32>
      %1 = moe.scale %ct {factor = 2.0 : f64} : tensor<4x8xf32>
      return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
    }
    ```

    With `wide-gradients` the gradients of parameters of 16 bits are of f32. What is made of parameters alone has such
    gradients too. Ops that can give a sum of f32 do so (MoeWideGradientOpInterface), and the gradients that others give
    are cast before they are added up. So micro-batches, uses and ranks are all summed in f32.
  }];
  let options = [
    Option<"wideGradients", "wide-gradients", "bool", /*default=*/"false", "Sum the gradients of 16-bit parameters in f32">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoePrintCost : Pass<"moe-print-cost", "::mlir::ModuleOp"> {
  let summary = "print what each op needs";
  let description = [{
    Writes to standard error, function by function, a line for each op that needs anything. The op has to implement
    MoeCostOpInterface; its level does not matter. A line gives the resource that the op keeps busy, FLOPs, and bytes read
    and written. For an exchange it also gives the group, the payload, and the bytes that one member sends to each other
    member. The figures are those of one rank. For a ragged op they hold for all rows that it has room for.

    ```
    @model
    op                           label            resource        GFLOP    MB read MB written  exchange
    moe.matmul                   layer0           matrix          0.006      1.597      0.016  -
    moe.all_to_all               layer0           network         0.000      1.966      1.966  all_to_all over ep (4): 0.491 MB to each
    ```
  }];
  let options = [
    Option<"json", "json", "bool", /*default=*/"false", "Write one JSON object on each line instead of a table">
  ];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
