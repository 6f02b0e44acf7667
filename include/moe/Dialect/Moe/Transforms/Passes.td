//===- Passes.td - passes of the moe dialect -----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
#define MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoePartition : Pass<"moe-partition", "::mlir::ModuleOp"> {
  let summary = "divide a model graph over the ranks: the baseline schedule";
  let description = [{
    Rewrites every function from global tensors to one rank's program under the module's `moe.parallel`, the baseline of Parm
    (section II): gate and dispatch on every model-parallel member, ESP-AllGather, EP-AlltoAll, expert shard, ESP-AllReduce,
    EP-AlltoAll, ESP-Split, combine. Arguments and results get their `moe.layout` and shard types. `moe.to_varying` is
    inserted wherever an op wants a varying operand.

    With `reference` the same model is made for one rank, routed in the same groups of tokens, for comparison.

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
    Option<"reference", "reference", "bool", /*default=*/"false", "One rank instead of the module's world">,
    Option<"groups", "groups", "int64_t", /*default=*/"0",
           "Routing groups of the whole model; 0: the number of token shards">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSetCluster : Pass<"moe-set-cluster", "::mlir::ModuleOp"> {
  let summary = "tell the passes behind it what the cluster is";
  let description = [{
    Sets the module's `moe.cluster`, in place of the one that is there.

    Example: `moe-opt --pass-pipeline='builtin.module(moe-set-cluster{rates="#moe.cluster<node_ranks = 4>"},..)'`
  }];
  let options = [Option<"rates", "rates", "std::string", /*default=*/"\"#moe.cluster<node_ranks = 8>\"", "A #moe.cluster">];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSequenceParallel : Pass<"moe-sequence-parallel", "::mlir::func::FuncOp"> {
  let summary = "norms, dropout and residual sums on each rank's part of the tokens";
  let description = [{
    Megatron's sequence parallelism (Korthikanti et al., 2022) over mp, whatever made the program: an all_reduce over mp that an
    op takes which works row by row (MoeRowwiseOpInterface) becomes a reduce_scatter of rows and an all_gather, and such ops
    are done for the part, with the gather behind them; what else they take is sliced. So between the products that are divided
    over mp, rows and what is kept of them for the backward are a part, and an all_gather comes before the next product. The
    bytes exchanged stay the same. To run behind the rewrites of layers, whose gathers of rows are taken likewise, and before
    moe-cut-stages and moe-differentiate. Where there is nothing to divide a warning says so.

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
  let summary = "cast operands to the SPMD states that their ops want";
  let description = [{
    For passes that rewrite an SPMD program without thinking of states: an operand that is replicated where its op wants it
    varying gets a `moe.to_varying`, one for all users.
  }];
}

def MoeVerifySpmd : Pass<"moe-verify-spmd", "::mlir::func::FuncOp"> {
  let summary = "reject programs whose SPMD states do not fit";
  let description = [{
    Follows, from the arguments' layouts, over which groups each value varies, and reports an operand in a state that its op
    does not take and a result that does not have its layout: a missing all-reduce or an unsplit block of tokens. The axes are
    those of the module's moe.parallel, divided further by groups of the program. A group that does not fit the others is an
    error (see `#moe.parallel`).

    Then follows, axis by axis, how each varying value is placed: as equal copies, as shards of a dimension, or as partial
    sums (Placement.h). A sum of copies or of shards is an error, and so are partial sums that are taken for whole values: by an
    activation, by a product with other partial sums, by a broadcast, by moe.assume_replicated, as a result. Nothing is
    concluded from values whose placement no rule follows.
  }];
}

def MoeAccumulate : Pass<"moe-accumulate", "::mlir::func::FuncOp"> {
  let summary = "a step of several micro-batches";
  let description = [{
    Repeats what depends on the inputs of an SPMD program for each of n micro-batches: an input [S, ..] becomes [n, S, ..],
    and losses and metrics the means over the micro-batches. What depends on parameters alone stays as it is, so that the
    gradients of all micro-batches are added up before they are summed over ranks, once. The ops of micro-batch i say so in
    `moe.micro_batch`, and those that moe-differentiate builds for them do too.

    What a mean divides by (moe.label_count) is counted once, in the input of the whole step, and each micro-batch divides by
    the mean of these counts. So a mean over labelled tokens is that over all of the step, however they are spread.

    The micro-batches are put down last one first: what moe-differentiate appends then begins with micro-batch 0, and each
    gradient is added to those of the micro-batches before it. moe-order-micro-batches then brings forward and backward of
    each together.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", /*default=*/"1", "How many">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeOrderMicroBatches : Pass<"moe-order-micro-batches", "::mlir::func::FuncOp"> {
  let summary = "which micro-batch, and which stage of a pipeline, comes when";
  let description = [{
    Without stages forward and backward of one micro-batch after the other: the values that one micro-batch keeps for its
    backward are then free before the next one's.

    With stages (moe-cut-stages) units of a micro-batch, a stage and a direction, in an order in which each comes behind those
    whose values it needs and those of each device are in the order of 1F1B: as many forwards as it takes until the
    first backward arrives, then one forward and one backward in turn. With several stages for each device (stage s is of
    device s mod devices) the order is that of interleaved 1F1B, for which micro-batches are a multiple of devices
    (Narayanan et al., SC 2021, section 2.2).
  }];
  let options = [
    Option<"devices", "devices", "int64_t", /*default=*/"1", "Of the pipeline; they divide the stages">
  ];
}

def MoeCutStages : Pass<"moe-cut-stages", "::mlir::func::FuncOp"> {
  let summary = "cut a forward program into stages of a pipeline";
  let description = [{
    Sets `moe.stage` on the ops of a forward SPMD program, such that stages are consecutive and the slowest takes as little time
    as possible: what its ops take by their costs at the rates of `moe.cluster`, with tokens that choose experts evenly, and what is sent
    to it. Cuts are where less is handed over than next to them: between blocks, and between the parts of a block. Ops that
    need no inputs, and those that are next to nothing, belong to no stage: each makes them itself.

    The pass runs after those that make the schedule, and before moe-accumulate and moe-differentiate. The ops that these two
    make belong to the stages of the ops that they are made of.

    With `stages=0` each part between two places to cut is a stage of its own. The function then says how many bytes each
    receives (`moe.part_bytes`).
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"1", "How many; 0 for as many as can be">,
    ListOption<"boundaries", "boundaries", "int64_t",
               "The number of the first part of each stage, and the number of parts, which is checked; else stages take "
               "about equal time">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeRecomputeBlocks : Pass<"moe-recompute-blocks", "::mlir::func::FuncOp"> {
  let summary = "keep less for the backward, and compute it again";
  let description = [{
    Sets `moe.residual` on the ops of the blocks of a forward SPMD program: recompute, or for an exchange recommunicate. Three
    kinds of ops keep their results: those that hand a result to another block, those after the last block (the head and
    the loss), and those that have `moe.residual` already.

    A block ends where moe-cut-stages may cut and more, or nothing, is handed over on both sides. Of these places the pass
    takes those where about as much is handed over as at most of them.

    With `selective` only ops that move memory are computed again, such as norms, activations and permutations. Products,
    attention and exchanges keep their results.
  }];
  let options = [
    Option<"selective", "selective", "bool", /*default=*/"false", "Compute only ops that move memory again">
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSplitStages : Pass<"moe-split-stages", "::mlir::ModuleOp"> {
  let summary = "a program for each device of a pipeline";
  let description = [{
    Divides a program whose ops have `moe.stage` among the members of the group `pp`: member d does what belongs to the stages
    s with s mod pp = d, in the program's order. An op without a stage, e.g. one that adds up what two stages made or updates a
    parameter, is done where its largest operand is; what needs arguments alone is repeated wherever it is used. Each value that
    another member uses is sent once (moe.send) and received (moe.receive); both stand in the order of the whole program, so
    that no order of the members' streams can hang. Arguments go where they are used; what updates one (`moe.updates`) goes
    wherever that is: a head that is tied to the embedding gets its new value from where that is updated.

    The programs are named stage0, stage1, .. and say whose they are in `moe.ranks`. With pp = 1 nothing changes.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeDifferentiate : Pass<"moe-differentiate", "::mlir::func::FuncOp"> {
  let summary = "append the backward program";
  let description = [{
    Turns `f(args) -> results` into `f(args, cotangents) -> (results, gradients)`: a cotangent argument for each
    floating-point result, a gradient for each argument through which one flows, each with the layout of its primal. A result
    of role `loss` has the cotangent 1 instead, and then other results have none. The
    backward is each op's own adjoint in reverse order, so it belongs to whatever schedule the forward has.

    What the backward needs of the forward it gets as `moe.residual` on the op that makes it says: kept; copied to the host
    (moe.offload) and back (moe.fetch); or made again by the same ops, just before it is needed. Chunk (`moe.chunk`) and
    ring (`moe.ring`) of an op are those of its adjoint, the gradients of a ring's values being a ring. A value that is
    kept leaves its ring.

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
  }];
}

def MoePrintCost : Pass<"moe-print-cost", "::mlir::ModuleOp"> {
  let summary = "print what each op needs";
  let description = [{
    Writes to standard error, function by function, for each op with MoeCostOpInterface that needs anything, at any level: the resource
    that it keeps busy, FLOPs, bytes read and written, and of exchanges the group, the payload and the bytes that one member
    sends to each other. Figures are one rank's; of a ragged op, those of the rows for which it has room.

    ```
    @model
    op                           label            resource        GFLOP    MB read MB written  exchange
    moe.matmul                   layer0           matrix          0.006      1.597      0.016  -
    moe.all_to_all               layer0           network         0.000      1.966      1.966  all_to_all over ep (4): 0.491 MB to each
    ```
  }];
  let options = [
    Option<"json", "json", "bool", /*default=*/"false", "One JSON object a line instead of a table">
  ];
}

#endif // MOE_DIALECT_MOE_TRANSFORMS_PASSES_TD
