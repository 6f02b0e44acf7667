//===- Passes.td - passes of the moe dialect -----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

class MoePass<string argument, string op = "::mlir::func::FuncOp"> : Pass<argument, op> {
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoePartition : MoePass<"moe-partition", "::mlir::ModuleOp"> {
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
}

def MoeSetCluster : MoePass<"moe-set-cluster", "::mlir::ModuleOp"> {
  let summary = "tell later passes about the cluster";
  let description = [{
    Sets the module's `moe.cluster`. It replaces one that is there.

    Example: `moe-opt --pass-pipeline='builtin.module(moe-set-cluster{rates="#moe.cluster<node_ranks = 4>"},..)'`
  }];
  let options = [Option<"rates", "rates", "std::string", /*default=*/"\"#moe.cluster<node_ranks = 8>\"", "The rates, as a #moe.cluster">];
}

def MoeWeighHidden : MoePass<"moe-weigh-hidden"> {
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

def MoeSequenceParallel : MoePass<"moe-sequence-parallel"> {
  let summary = "compute norms, dropout and residual sums on each rank's part of the tokens";
  let description = [{
    Megatron's sequence parallelism (Korthikanti et al., 2022, section 4.2.2) over mp. The pass does not depend on the
    schedule that made the program.

    Some ops work row by row (MoeRowwiseOpInterface), such as norms. If such an op takes the result of an all_reduce over
    mp, the all_reduce becomes a reduce_scatter of rows and an all_gather. The op then works on its member's part of the
    rows, and the all_gather moves after it. Its other row operands are sliced.

    So between the products that are divided over mp, each member has only its part of the rows, and keeps only that part
    for the backward. An all_gather comes before the next product. The exchanged bytes stay the same.

    The pass runs after the rewrites of layers, whose gathers of rows it treats alike, and before moe-cut-stages
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
}

def MoeInsertToVarying : MoePass<"moe-insert-to-varying"> {
  let summary = "cast operands to the SPMD states that their ops need";
  let description = [{
    Serves passes that rewrite an SPMD program without looking at states. If an operand is replicated and its op needs it to
    vary, the pass inserts a `moe.to_varying`. All users share one such cast.
  }];
}

def MoeVerifySpmd : MoePass<"moe-verify-spmd"> {
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

    If no rule gives a value's placement, the pass concludes nothing from it.
  }];
}

def MoeVerifyTypes : MoePass<"moe-verify-types"> {
  let summary = "reject programs that round values more than their types ask for";
  let description = [{
    Compares a program with `moe.dtype` and `moe.grad_dtype` of its module (docs/Verification.md, "Types"). Without the
    first, the program's type is that of the arguments with the fewest bits. These are errors:

    - a value of another type than that of the program and of its accumulators;
    - a value that is rounded to fewer bits, handed on or summed over ranks, and given more bits again;
    - a sum over data-parallel ranks in fewer bits than `moe.grad_dtype` has, if it is there.
  }];
}

def MoeBucketParameters : MoePass<"moe-bucket-parameters"> {
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
}

def MoeAccumulate : MoePass<"moe-accumulate"> {
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
}

def MoeSplitBackward : MoePass<"moe-split-backward"> {
  let summary = "mark the gradients of weights in the backward of each stage";
  let description = [{
    The backward of a stage hands the gradient of its input to the stage before it. The pass finds the ops that this
    gradient needs. It marks all other ops of the backward with the work `weights`: the stage before does not wait for
    them. So moe-order-micro-batches may postpone them (zero bubble, Qi et al., ICLR 2024). Gradients of weights are sums
    over micro-batches, and keep their order.

    The first stage hands nothing on. Its backward goes as far as the gradient of the first op of the forward.

    Ops that make or use values of a ring (`moe.ring`) stay in the backward, since another value takes their place. With
    `whole-repeated`, ops that need values which the backward computes again stay in the backward. Otherwise these
    values live until the postponed ops.
  }];
  let options = [
    Option<"wholeRepeated", "whole-repeated", "bool", /*default=*/"false",
           "Mark no op that needs values which are computed again">
  ];
}

def MoeRepeatMicroBatches : MoePass<"moe-repeat-micro-batches"> {
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
}

def MoeOrderMicroBatches : MoePass<"moe-order-micro-batches"> {
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
      exchanges of one run beside computation of the other. It keeps a few blocks more than interleaved 1F1B. On one
      device it orders the forward of a micro-batch and the backward of the one before together.
    - `zb-h1` (Qi et al., ICLR 2024): 1F1B, in which device d postpones the gradients of weights by d micro-batches. The
      bubble is about a third of that of 1F1B. The first device keeps as many micro-batches as in 1F1B, and the others
      keep no more. It needs one stage for each device.
    - `zb-v` (the same): each device has two stages, s and 2 devices - 1 - s. So the device with the first stage has the
      last one, too. The order is the fastest of several list schedules. A device keeps as much as the first device of
      1F1B.
    - `dualpipe-v` (DeepSeek-AI, 2025): the same two stages. A forward of one micro-batch stands beside a backward of
      another one. It needs two micro-batches for each device.
    - `search`: the fastest of the orders above that the number of stages allows, and of list schedules.

    `zb-v` and `search` time the units by the costs of their ops at the rates of `moe.cluster`.

    Ops that belong to no micro-batch but need them, such as sums of gradients over ranks and the optimizer, come after
    all micro-batches. But if a device has done all backwards of one of its stages and has others to do, they come as soon
    as the device need not wait for them.

    `side-by-side` makes one micro-batch of that many neighbours: a device orders the ops of their forwards together, and
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

def MoeCutStages : MoePass<"moe-cut-stages"> {
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
}

def MoeRecomputeBlocks : MoePass<"moe-recompute-blocks"> {
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
}

def MoeSplitStages : MoePass<"moe-split-stages", "::mlir::ModuleOp"> {
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
}

def MoeDifferentiate : MoePass<"moe-differentiate"> {
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
}

def MoePrintCost : MoePass<"moe-print-cost", "::mlir::ModuleOp"> {
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

//===----------------------------------------------------------------------===//
// Schedules: they rewrite the baseline that moe-partition makes.
//===----------------------------------------------------------------------===//

def MoePauseMp : MoePass<"moe-pause-mp"> {
  let summary = "rewrite the baseline's layers to Parm's schedule S1 or S2";
  let description = [{
    In the baseline all members of mp dispatch the same tokens, and the experts compute each token once for each of them.
    After this pass each member sends only its own share (Parm, section III-B), over the fused group of ep and esp:

    - ESP-AllGather and EP-AlltoAll become a dump, which takes no memory, and one EP&ESP-AlltoAll.
    - ESP-AllReduce, EP-AlltoAll and ESP-Split become one EP&ESP-AlltoAll and a local sum.

    S1 splits the tokens (MP-Split) before the gate and gathers the layer's output over mp. S2 splits the dispatched rows
    and gathers them before the combine. The pass rewrites layers of the capacity form and of the dropless form.

    In S1 each member routes its own tokens. So routing groups, capacity and auxiliary loss are those of its share. A
    layer has G routing groups on a rank. If mp does not divide G, S1 has mp times as many groups, and each has the mp-th
    part of the capacity, rounded up. A remark says when rounding changes the capacity.

    In S2 the routing is the baseline's. If the rows of the buffer cannot be shared out evenly, the buffer is padded, with
    a remark. The capacity does not change.

    A layer that is not a baseline layer is left as it is, with a warning that gives the reason. So is a layer whose
    tokens cannot be shared out, for S1.

    With `schedule=chosen` the attribute `moe.pause_mp` on a layer's moe.dispatch, "s1" or "s2", chooses its schedule.
    moe-parm-algorithm1 sets it. A layer without it is left as it is.

    Before -> after, S2 with mp = esp = 2 and ep = 2:

    ```mlir
    %d = moe.dispatch %xv, %slots : .. -> tensor<4x8x16xf32>
    %g = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : ..
    %h = moe.all_to_all %g over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<2x32x16xf32>
    // -> half as many rows for each expert
    %d = moe.dispatch %x, %slots : .. -> tensor<4x8x16xf32>
    %s = moe.slice %d over <"mp", 2, 1> {dim = 1 : i64} : .. -> tensor<4x4x16xf32>
    %u = moe.dump %s {blocks = 2 : i64} : .. -> tensor<8x4x16xf32>
    %h = moe.all_to_all %u over <"world", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<2x16x16xf32>
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "::mlir::moe::PauseMpSchedule", /*default=*/"::mlir::moe::PauseMpSchedule::Chosen",
           "S1, S2, or the choice of each layer", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::PauseMpSchedule::S1, "s1", "split the tokens before the gate"),
             clEnumValN(::mlir::moe::PauseMpSchedule::S2, "s2", "split the rows after it"),
             clEnumValN(::mlir::moe::PauseMpSchedule::Chosen, "chosen", "the schedule in moe.pause_mp"))}]>
  ];
}

def MoePpMoe : MoePass<"moe-ppmoe"> {
  let summary = "rewrite the baseline's layers to PPMoE's schedule: one sum instead of all exchanges";
  let description = [{
    Rewrites layers whose experts are divided over ranks that all have the same tokens. ep and esp then lie inside mp, as
    when an MoE layer replaces a tensor-parallel FFN (PPMoE, section 3.3).

    Each member takes the choices of its own experts (moe.local_slots), so no rows are exchanged. The experts' outputs go
    to their tokens, with zeros for the choices of other experts. One all_reduce of [S, M] over the fused group of ep and
    esp adds them up. It replaces ESP-AllGather, ESP-AllReduce, both EP-AlltoAlls and ESP-Split. The routing is the
    baseline's and is the same on all members.

    Dropless rows have the room that the baseline has for one member's tokens: S min(k, E / ep), or `max_load` times the
    mean S k / ep. Tokens and weights become varying over the group. The adjoints of these casts are the sums of the
    backward. The baseline's moe.assume_replicated is removed: the result of the sum is replicated, also over members of
    mp that hold the same experts.

    A layer that is not a baseline layer is left as it is, with a warning that gives the reason. So is a layer whose
    experts' ranks have different tokens.

    Before -> after, with mp = 4 and ep = esp = 2:

    ```mlir
    %d = moe.dispatch %xv, %slots : .. -> tensor<4x8x16xf32>
    %g = moe.all_gather %d over <"esp", 2, 1> {dim = 1 : i64} : ..
    %h = moe.all_to_all %g over <"ep", 2, 2> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<2x32x16xf32>
    // -> each row once
    %own, %n = moe.local_slots %slots, %counts over <"mp", 4, 1> {capacity = 8 : i64, copies = 2 : i64} : ..
    %d = moe.dispatch %xv, %own : .. -> tensor<2x8x16xf32>
    // .. experts
    %c = moe.combine %o, %own weights(%wv) : .. -> tensor<16x16xf32>
    %y = moe.all_reduce %c over <"mp", 4, 1> : ..
    ```
  }];
}

def MoeSplitExchanges : MoePass<"moe-split-exchanges"> {
  let summary = "make exchanges in phases, so that each overlaps with the ops after the phase before";
  let description = [{
    The result of an all_to_all may go into another exchange, through ops that work block by block
    (MoeSplittableOpInterface). The pass makes such an all_to_all in phases. In each phase a member exchanges with one
    whole block of neighbours. The next ops start at once on the data that arrived. They run on another stream, beside the
    next phase. There are as many phases as all of these ops allow, or as the option says.

    At the end of S2 this is Parm's SAA (section III-D): an all_to_all, a local sum and an all_gather over mp. The phases
    are ESP groups, or whole groups of mp where these are larger. The same happens in S2's backward.

    The pass runs after moe-differentiate. If there is nothing to split, a remark says so.

    Before -> after:

    ```mlir
    %b = moe.all_to_all %o over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : .. -> tensor<8x4x16xf32>
    %r = moe.local_reduce %b {blocks = 2 : i64} : .. -> tensor<4x4x16xf32>
    %g = moe.all_gather %r over <"mp", 2, 1> {dim = 1 : i64} : .. -> tensor<4x8x16xf32>
    // ->
    %b0 = moe.all_to_all_phase %o over <"world", 4, 1> {.., phase = 0 : i64, phases = 2 : i64} : .. -> tensor<4x4x16xf32>
    %r0 = moe.local_reduce %b0 : .. -> tensor<2x4x16xf32>
    %g0 = moe.all_gather %r0 over <"mp", 2, 1> {dim = 1 : i64} : .. -> tensor<2x8x16xf32>
    // .. %g1 likewise from phase 1
    %g = moe.join_phases %g0, %g1 over <"world", 4, 1> : .. -> tensor<4x8x16xf32>
    ```
  }];
  let options = [
    Option<"phases", "phases", "int64_t", /*default=*/"0", "Most phases of an exchange; 0: as many as possible">
  ];
}

def MoeRingAttention : MoePass<"moe-ring-attention"> {
  let summary = "let keys and values go round the members of cp, instead of gathering them";
  let description = [{
    If context parallelism divides sequences, moe.attention takes gathered keys and values. The pass gives it the rank's
    own rows instead, and the attribute `ring`. So no rank holds the keys of whole sequences. The pass runs before
    moe-differentiate, and moe-expand-ring-attention writes out the exchanges after it. Attention with a bias or dropout stays as it
    is, with a remark.

    Before -> after:

    ```mlir
    %g = moe.all_gather %k over <"cp", 2, 1> {dim = 0 : i64} : .. -> tensor<16x8xf32>
    %t = moe.to_varying %g over <"cp", 2, 1> : tensor<16x8xf32>
    %j = moe.join_sequences %t {..} : tensor<16x8xf32>
    %y, %lse = moe.attention %q, %j, %w {.., q_length = 8 : i64, k_length = 16 : i64, cut = #moe.cut<<"cp", 2, 1>, zigzag>} : ..
    // ->
    %y, %lse = moe.attention %q, %k, %v {.., q_length = 8 : i64, k_length = 8 : i64, cut = #moe.cut<<"cp", 2, 1>, zigzag>, ring} : ..
    ```
  }];
}

def MoeExpandRingAttention : MoePass<"moe-expand-ring-attention"> {
  let summary = "write out the exchanges of keys and values that go round";
  let description = [{
    A moe.attention with `ring` becomes one for each member of cp. In step p a rank works on the keys and values of the
    member p places behind it. It receives them from there in a phase of an all_to_all, beside the step before.
    moe.merge_attention puts the results together (Ring Attention, Liu et al., 2023). In the backward each step's gradients of
    keys and values go back to their member.

    The pass runs after moe-differentiate.

    Before -> after:

    ```mlir
    %y, %lse = moe.attention %q, %k, %v {.., cut = #moe.cut<<"cp", 2, 1>, zigzag>, ring} : ..
    // ->
    %k1 = moe.all_to_all_phase %kd over <"cp", 2, 1> {.., phase = 1 : i64, phases = 2 : i64} : ..
    %v1 = moe.all_to_all_phase %vd over <"cp", 2, 1> {.., phase = 1 : i64, phases = 2 : i64} : ..
    %a, %la = moe.attention %q, %k, %v {.., key_shift = 0 : i64} : ..
    %b, %lb = moe.attention %q, %k1, %v1 {.., key_shift = 1 : i64} : ..
    %y, %lse = moe.merge_attention %a, %la, %b, %lb : ..
    ```
  }];
}

def MoeChunkExperts : MoePass<"moe-chunk-experts"> {
  let summary = "compute experts in chunks of the tokens, so that exchanges and computation overlap";
  let description = [{
    Divides the part of each layer between dispatch and combine into chunks of rows. Each chunk has its own exchanges over
    the whole group (MPipeMoE, section III-B). The pass works on any schedule: all ops between dispatch and combine that
    work row by row (MoeChunkableOpInterface) are done for each chunk. Rows are dispatched in the order of the chunks
    (moe.route). So a chunk is one piece of memory, and nothing is copied.

    The pass runs before moe-differentiate, which then makes the chunks of the backward. The gradients of the experts'
    weights are added up in place, one product after the other.

    With a capacity a chunk has a part of each expert's rows. Dropless, it has the choices of a part of the tokens. If
    rows cannot be divided evenly, the buffer is padded, with a remark. The same choices are dropped as before. With one
    chunk nothing changes. A layer that cannot be divided is left as it is, with a warning that gives the reason.

    The values of one kind take turns in a ring of places (#moe.ring; MPipeMoE, section III-D). The results and operands
    of exchanges have `exchanged-ring` places. The values between the products of the experts have `hidden-ring` places. 0
    means no ring.

    Before -> after, with two chunks:

    ```mlir
    %d = moe.dispatch %x, %slots : .. -> tensor<4x8x16xf32>
    %h = moe.all_to_all %d over <"ep", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : .. -> tensor<1x32x16xf32>
    // ->
    %d = moe.dispatch %x, %slots : .. -> tensor<8x4x16xf32>
    %p:2 = moe.split %d : .. -> (tensor<4x4x16xf32>, tensor<4x4x16xf32>)
    %h0 = moe.all_to_all %p#0 over <"ep", 4, 1> {.., moe.chunk = #moe.chunk<0 of 2>} : .. -> tensor<1x16x16xf32>
    %h1 = moe.all_to_all %p#1 over <"ep", 4, 1> {.., moe.chunk = #moe.chunk<1 of 2>} : .. -> tensor<1x16x16xf32>
    ```
  }];
  let options = [
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "Number of chunks of each layer">,
    Option<"exchangedRing", "exchanged-ring", "int64_t", /*default=*/"2", "Places for values that are exchanged; 0: no ring">,
    Option<"hiddenRing", "hidden-ring", "int64_t", /*default=*/"1", "Places for values inside the experts; 0: no ring">
  ];
}

def MoeShadowExperts : MoePass<"moe-shadow-experts"> {
  let summary = "compute popular experts where the tokens are";
  let description = [{
    FasterMoE's dynamic shadowing (section 4.1) for dropless layers, in any schedule. All ranks that exchange a layer's
    rows gather their counts. In every step each of them decides which experts become shadows (moe.choose_shadows). All
    ranks decide the same.

    The choices of shadows have their own path from dispatch to combine. It is a copy of the experts' path, over esp where
    that is over ep, and takes its weights from moe.broadcast_experts. The rows of shadows are left out of the exchange.

    With `shrink` there is less room for the rows that arrive. The room is enough for the rows that are left after the
    heaviest experts became shadows, whatever the routing, and at least four times the mean. If more rows would come,
    further experts become shadows, even where that takes more time.

    The pass runs before moe-chunk-experts, moe-smart-schedule and moe-differentiate. moe-differentiate makes the reduction
    that sums the gradients of shadows at the owners of the experts.

    Times follow from the rates of the module's `moe.cluster`. An unknown rate counts as no time at all. Both
    `expert_bytes` and `broadcast_bytes` are called W in the paper. A layer with a capacity is left as it is, and so is a
    layer that has all experts on every rank.

    Before -> after:

    ```mlir
    %d = moe.dispatch %x, %slots : ..
    // ->
    %all = moe.all_gather %counts over <"ep_esp", 4, 1> {dim = 0 : i64} : .. -> tensor<4x8xi32>
    %shadows = moe.choose_shadows %all {policy = #moe<shadow_policy simulate>, most = 2 : i64, ..} : .. -> tensor<1x8xi32>
    %own, %c, %theirs, %sc = moe.divide_choices %experts, %shadows : ..
    %d = moe.dispatch %x, %own : ..
    ..
    %w = moe.broadcast_experts %w1, %shadows over <"ep", 4, 1> : .. -> tensor<2x16x32xf32>
    %sd = moe.dispatch %x, %theirs : ..
    %h = moe.grouped_matmul %sd, %w counts(%sc) : ..
    ```
  }];
  let options = [
    Option<"max", "max", "int64_t", /*default=*/"0", "Most shadows of a layer; 0: a quarter of its experts">,
    Option<"policy", "policy", "::mlir::moe::ShadowPolicy", /*default=*/"::mlir::moe::ShadowPolicy::simulate",
           "How shadows are chosen", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::ShadowPolicy::algorithm1, "algorithm1", "Algorithm 1 of the paper"),
             clEnumValN(::mlir::moe::ShadowPolicy::prefix, "prefix", "the best prefix of the order of Algorithm 1"),
             clEnumValN(::mlir::moe::ShadowPolicy::simulate, "simulate", "the least predicted time of the layer"))}]>,
    Option<"phases", "phases", "int64_t", /*default=*/"1", "Number of phases of an exchange that overlaps with the experts">,
    Option<"shrink", "shrink", "bool", /*default=*/"true", "Reserve room only for the rows that shadows may leave">
  ];
}

def MoeSmartSchedule : MoePass<"moe-smart-schedule"> {
  let summary = "make ragged exchanges by groups of neighbours, each overlapping with the experts' work for others";
  let description = [{
    FasterMoE's smart schedule (section 4.2). The ranks form n groups of neighbours. A ragged exchange to the experts,
    their computation and the exchange back are each done in n steps. In step j group i sends rows to group i - j and
    receives rows from group i + j (S), computes the rows that arrived (C), and returns them (R). All returned rows go
    into one buffer, and nothing is copied.

    The pass runs before moe-differentiate, which then makes the phases of the backward. plan-order decides on which
    stream and when each step runs.

    `group-size` is a number of ranks. Groups are larger, by as little as possible, if that number does not divide the
    members of an exchange. The same holds if it would divide the ranks that hold one expert.

    `order` is the order of the steps. `ring` takes them by distance. `topology` takes step 0 first. The other steps
    follow by how many groups exchange with another node, most first, so that the last step is a fast one too. The
    module's `moe.cluster` says which ranks share a node.

    Before -> after, with two groups:

    ```mlir
    %h = moe.all_to_all_v %d, %b, %e over <"ep", 4, 1> {direction = #moe<direction to_experts>} : ..
    %y = moe.all_to_all_v %o, %b, %e over <"ep", 4, 1> {direction = #moe<direction from_experts>} : ..
    // ->
    %e0 = moe.phase %e over <"ep", 4, 1> {phase = 0 : i64, phases = 2 : i64} : ..
    %h0 = moe.all_to_all_v %d, %b, %e0 over <"ep", 4, 1> {direction = #moe<direction to_experts>, phases = 2 : i64} : ..
    %y0 = moe.all_to_all_v %o0, %b, %e0 over <"ep", 4, 1> {direction = #moe<direction from_experts>, phases = 2 : i64} : ..
    ..
    %y1 = moe.all_to_all_v %o1, %b, %e1 addend(%y0) over <"ep", 4, 1> {.., phase = 1 : i64, phases = 2 : i64} : ..
    ```
  }];
  let options = [
    Option<"groupSize", "group-size", "int64_t", /*default=*/"0",
           "Number of neighbouring ranks of a group; 0: a node, or a fourth of the members where all are in one node">,
    Option<"order", "order", "::mlir::moe::SmartOrder", /*default=*/"::mlir::moe::SmartOrder::Topology",
           "Order in which groups exchange", [{::llvm::cl::values(
             clEnumValN(::mlir::moe::SmartOrder::Ring, "ring", "by distance"),
             clEnumValN(::mlir::moe::SmartOrder::Topology, "topology", "fast steps first and last"))}]>
  ];
}

def MoeExchangeByNode : MoePass<"moe-exchange-by-node"> {
  let summary = "exchange the rows of a layer with a capacity between nodes, and then inside each node";
  let description = [{
    In a layer with a capacity, each rank sends rows to each other rank. After this pass it sends the rows for all ranks of a
    node to one rank there, the one in the same place as its own. From there they go to their ranks. So a rank has fewer
    and larger messages between nodes, of as many bytes. Tutel calls this 2DH.

    The rows of an expert arrive in another order: by place in the node first. The experts compute each row alone, and the
    way back restores the order. So the rewrite needs experts alone between the two exchanges. They have to be over
    the same group, whose ranks are several nodes of `node-ranks` ranks each.

    Before -> after, with 8 ranks in 2 nodes:

    ```mlir
    %r = moe.all_to_all %d over <"ep", 8, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3x4xf32>) -> tensor<1x24x4xf32>
    // ->
    %n = moe.all_to_all %d over <"ep_nodes", 2, 4> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3x4xf32>) -> tensor<4x6x4xf32>
    %r = moe.all_to_all %n over <"ep_node", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x6x4xf32>) -> tensor<1x24x4xf32>
    ```
  }];
  let options = [
    Option<"nodeRanks", "node-ranks", "int64_t", /*default=*/"0", "consecutive ranks of a node">
  ];
}

def MoeSendOnce : MoePass<"moe-send-once"> {
  let summary = "send a token once to each rank, or node, that holds some of its experts";
  let description = [{
    In a dropless layer, a token goes to a rank once for each of its experts there. After this pass it goes there once, with
    the numbers of these experts and the weights of the routing. There it becomes a row for each expert. The experts' results
    are added up, with their weights, to one row before the return.

    The ops that move the rows stay as they are: the baseline's exchanges, or those of S1 and S2. So the pass runs behind
    moe-pause-mp. It leaves layers with shadows or with a capacity, and layers without an exchange.

    With `node-ranks`, a token goes first once to each node of that many ranks: to the rank in the same place as its own. From
    there it goes once to each rank of the node. On the return the results are added up in the node first. Experts that
    are cut into slices stay as they are. Where all ranks are in one node, tokens go straight to them.

    With `chunks` = n > 1, each of n equal parts of a rank's tokens is sent alone, as the chunks of moe-chunk-experts are.

    Before -> after, with 8 experts on 4 ranks and 2 choices:

    ```mlir
    %d = moe.dispatch %x, %slots : .. -> tensor<32x8xf32>
    %n = moe.all_to_all %counts over <"ep", 4, 1> : (tensor<1x8xi32>) -> tensor<4x2xi32>
    %r = moe.all_to_all_v %d, %counts, %n over <"ep", 4, 1> : .. -> tensor<128x8xf32>
    %h = .. experts of %r, counts(%n) ..
    %b = moe.all_to_all_v %h, %counts, %n over <"ep", 4, 1> : .. -> tensor<32x8xf32>
    %y = moe.combine %b, %slots weights(%weights) : ..
    // ->
    %slots1, %counts1, %sent = moe.merge_choices %experts dropped(%slots) over <"self", 1, 1> {experts = 8 : i64} : ..
    %n1 = moe.all_to_all %counts1 over <"ep", 4, 1> : (tensor<1x4xi32>) -> tensor<4x1xi32>
    // Rows, choices and weights go alike.
    %r1 = moe.all_to_all_v (moe.dispatch %x, %slots1), %counts1, %n1 over <"ep", 4, 1> : .. -> tensor<64x8xf32>
    %c1 = moe.all_to_all_v %sent, %counts1, %n1 over <"ep", 4, 1> : .. -> tensor<64x2xi32>
    %w1 = moe.all_to_all_v (moe.dispatch %weights, %slots1), %counts1, %n1 over <"ep", 4, 1> : .. -> tensor<64x2xf32>
    %slots2, %counts2, %_ = moe.merge_choices %c1 used(%n1) over <"ep", 4, 1> {experts = 8 : i64} : ..
    %h = .. experts of (moe.dispatch %r1, %slots2), counts(%counts2) ..
    %p = moe.combine %h, %slots2 weights(%w1) : ..
    %b = moe.all_to_all_v %p, %counts1, %n1 over <"ep", 4, 1> : .. -> tensor<32x8xf32>
    %y = moe.combine %b, %slots1 : ..
    ```
  }];
  let options = [
    Option<"nodeRanks", "node-ranks", "int64_t", /*default=*/"0", "consecutive ranks of a node; 0: tokens go straight to ranks">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "equal parts of the tokens, each of which is sent alone">
  ];
}

def MoeServeInPasses : MoePass<"moe-serve-in-passes"> {
  let summary = "serve the rows of dropless layers in passes of the rows that are reserved";
  let description = [{
    A dropless layer whose experts have room for fewer rows than may arrive (`max_load` of moe.layer) serves them in passes.
    The first pass is the layer as it is, on the choices that moe.window gives it. All ops of a further pass stand before
    it, marked with `moe.pass`, and are recomputed in the backward. Their result is added to the layer's. So the program
    reads as if there was exactly one further pass, and moe-differentiate derives the backward of one. moe-outline-passes
    then makes of the marked ops what runs as often as the routing demands.

    The pass runs after all rewrites of layers. A further pass has the chunks and phases of the layer, and their memory. It
    has no shadows: these always have room.

    Before -> after:

    ```mlir
    %scores, %experts, %slots, %weights, %counts, %aux = moe.route %logits : ..
    %d = moe.dispatch %x, %slots : ..
    %n = moe.all_to_all %counts over <"ep", 4, 1> : ..
    %r = moe.all_to_all_v %d, %counts, %n over <"ep", 4, 1> : .. -> tensor<40x8xf32>
    ..
    %y = moe.combine %back, %slots weights(%weights) : ..
    // ->
    %g = moe.all_gather %counts over <"ep", 4, 1> {dim = 0 : i64} : ..
    %left, %s0, %c0 = moe.window %slots, %g over <"ep", 4, 1> {rows = 40 : i64, workers = 4 : i64} : ..
    %left1, %s1, %c1 = moe.window %slots, %g before(%left) over <"ep", 4, 1> {.., moe.pass = "pass0"} : ..
    %d1 = moe.dispatch %x, %s1 {moe.pass = "pass0"} : ..
    ..
    %y1 = moe.combine %back1, %s1 weights(%weights) {moe.pass = "pass0"} : ..
    %d0 = moe.dispatch %x, %s0 : ..
    ..
    %y0 = moe.combine %back0, %s0 weights(%weights) : ..
    %y = moe.add %y0, %y1 {moe.pass = "pass0"} : ..
    ```
  }];
}

def MoeOutlinePasses : MoePass<"moe-outline-passes", "::mlir::ModuleOp"> {
  let summary = "make moe.repeat of the ops of further passes";
  let description = [{
    Takes all ops that have one `moe.pass`, micro-batch and stage into a function, and calls it by moe.repeat. What the
    function gives to others is a sum with a value from outside, in whose place it is computed. Calls of equal functions
    share one. It is an error if ops of a pass give other values to the rest of the program.
  }];
}

def MoeTopologyGate : MoePass<"moe-topology-gate"> {
  let summary = "let only few tokens choose experts of other nodes";
  let description = [{
    FasterMoE's topology-aware gate (section 4.3). A node has M ranks. For each choice, at most L = W_net / (M W_local) B
    of B tokens leave their node. The others choose again among the experts of their node. The pass sets this on each
    moe.route.

    The routing differs from that of the plain gate, so another model is trained. M, W_net (`node_link_bytes`) and W_local
    (`link_bytes`) come from the module's `moe.cluster`. If W_local is not known, no token leaves. The pass runs after
    moe-pause-mp. If all ranks that exchange are in one node, nothing changes.
  }];
}

class MoeResidualOption<string name, string text>
    : Option<name, name, "::mlir::moe::Residual", /*default=*/"::mlir::moe::Residual::keep", text, [{::llvm::cl::values(
        clEnumValN(::mlir::moe::Residual::keep, "keep", "keep in the device's memory"),
        clEnumValN(::mlir::moe::Residual::recompute, "recompute", "compute again"),
        clEnumValN(::mlir::moe::Residual::recommunicate, "recommunicate", "exchange again"),
        clEnumValN(::mlir::moe::Residual::offload, "offload", "keep in the host's memory"))}]>;

def MoeSetResiduals : MoePass<"moe-set-residuals"> {
  let summary = "decide how the backward gets the experts' operands and inner values";
  let description = [{
    Sets `moe.residual` on ops between the dispatch and the combine of each layer. moe-differentiate follows it. Any op
    may have this attribute. Its values are:

    - `keep`, the default;
    - `offload`: to the host's memory and back;
    - `recompute`: the op runs again in the backward. The backward gets its operands as their own `moe.residual` says.
    - `recommunicate`: the same for an exchange.

    `dispatched` is for the operands of the experts (T_DI in MPipeMoE, section III-D). It is keep, offload, or
    recommunicate, which repeats everything from the dispatch on. `hidden` is for the values between the first and the
    last product of the experts (T_M). It is keep, offload or recompute. With offload, an elementwise function of an
    offloaded value is computed again from that value.

    MPipeMoE's strategies, as dispatched and hidden: S1 is offload and offload, S2 recommunicate and offload, S3 offload
    and recompute, S4 recommunicate and recompute.
  }];
  let options = [
    MoeResidualOption<"dispatched", "The values that the experts take">,
    MoeResidualOption<"hidden", "The values that the experts compute inside">
  ];
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def MoeOptimize : MoePass<"moe-optimize"> {
  let summary = "append the optimizer's step to the backward program";
  let description = [{
    Replaces the gradient of each parameter among the results by the parameter after a step of SGD (as in PyTorch, with
    momentum) or AdamW.

    - The optimizer's states become arguments and results. A result of role `update` takes the place of the argument that
      `moe.updates` names, in the memory of that argument.
    - `learning_rate` and `step` (i32, from 0) become arguments. If gradients are clipped, the metric `gradient_norm`
      becomes a result.
    - Parameters of 16 bits have a master copy and states in f32.
    - A bucket (moe-bucket-parameters) is updated as one parameter. So are its states, whose pieces have the names that
      the states of parameters have.

    The norm of all gradients counts each parameter once. Squares are added up over the groups that shard a gradient, and
    over no other groups.
  }];
  let options = [
    Option<"kind", "kind", "::mlir::moe::OptimizerKind", /*default=*/"::mlir::moe::OptimizerKind::Adam", "The optimizer",
      [{::llvm::cl::values(clEnumValN(::mlir::moe::OptimizerKind::Sgd, "sgd", "SGD with momentum"),
                           clEnumValN(::mlir::moe::OptimizerKind::Adam, "adam", "AdamW"))}]>,
    Option<"momentum", "momentum", "double", /*default=*/"0.9", "Momentum of SGD">,
    Option<"beta1", "beta1", "double", /*default=*/"0.9", "Decay rate of AdamW's first moment">,
    Option<"beta2", "beta2", "double", /*default=*/"0.95", "Decay rate of AdamW's second moment">,
    Option<"eps", "eps", "double", /*default=*/"1e-8", "Term that AdamW adds to the denominator">,
    Option<"decay", "decay", "double", /*default=*/"0.0",
           "Weight decay, for parameters with two or more dimensions and without moe.no_decay">,
    Option<"clipNorm", "clip-norm", "double", /*default=*/"0.0", "Limit for the norm of all gradients; 0: no limit">
  ];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
