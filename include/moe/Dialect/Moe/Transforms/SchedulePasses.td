//===- SchedulePasses.td - passes that turn the baseline into schedules *- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_TD
#define MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_TD

include "mlir/Pass/PassBase.td"

def MoePauseMp : Pass<"moe-pause-mp", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoePpMoe : Pass<"moe-ppmoe", "::mlir::func::FuncOp"> {
  let summary = "rewrite the baseline's layers to PPMoE's schedule: one sum instead of all exchanges";
  let description = [{
    For layers whose experts are divided over ranks that all have the same tokens. ep and esp then lie inside mp. This is
    so where an MoE layer replaces a tensor-parallel FFN (PPMoE, section 3.3).

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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSplitExchanges : Pass<"moe-split-exchanges", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeRingAttention : Pass<"moe-ring-attention", "::mlir::func::FuncOp"> {
  let summary = "let keys and values go round the members of cp, instead of gathering them";
  let description = [{
    Where context parallelism divides sequences, moe.attention takes gathered keys and values. The pass gives it the rank's
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeExpandRingAttention : Pass<"moe-expand-ring-attention", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeChunkExperts : Pass<"moe-chunk-experts", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeShadowExperts : Pass<"moe-shadow-experts", "::mlir::func::FuncOp"> {
  let summary = "compute popular experts where the tokens are";
  let description = [{
    FasterMoE's dynamic shadowing (section 4.1) for dropless layers, in any schedule. All ranks that exchange a layer's
    rows gather their counts. In every step each of them decides which experts become shadows (moe.choose_shadows). All
    ranks decide the same.

    The choices of shadows have their own way from dispatch to combine. It is a copy of the experts' way, over esp where
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSmartSchedule : Pass<"moe-smart-schedule", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeExchangeByNode : Pass<"moe-exchange-by-node", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeSendOnce : Pass<"moe-send-once", "::mlir::func::FuncOp"> {
  let summary = "send a token once to each rank, or node, that holds some of its experts";
  let description = [{
    In a dropless layer, a token goes to a rank once for each of its experts there. After this pass it goes there once, with
    the numbers of these experts and the weights of the routing. There it becomes a row for each expert. The experts' results
    are added up, with their weights, to one row before the way back.

    What moves the rows stays what it is: the baseline's exchanges, or those of S1 and S2. So the pass runs behind
    moe-pause-mp. It leaves layers with shadows or with a capacity, and layers without an exchange.

    With `node-ranks`, a token goes first once to each node of so many ranks: to the rank in the same place as its own. From
    there it goes once to each rank of the node. On the way back the results are added up in the node first. Experts that
    are cut into slices stay as they are. Where all ranks are in one node, tokens go straight to them.

    With `chunks` = n > 1, each of n equal parts of a rank's tokens goes this way alone, as the chunks of moe-chunk-experts do.

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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeServeInPasses : Pass<"moe-serve-in-passes", "::mlir::func::FuncOp"> {
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
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeOutlinePasses : Pass<"moe-outline-passes", "::mlir::ModuleOp"> {
  let summary = "make moe.repeat of the ops of further passes";
  let description = [{
    Takes all ops that have one `moe.pass`, micro-batch and stage into a function, and calls it by moe.repeat. What the
    function gives to others is a sum with a value from outside, in whose place it is computed. Calls of equal functions
    share one. It is an error if ops of a pass give other values to the rest of the program.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoeTopologyGate : Pass<"moe-topology-gate", "::mlir::func::FuncOp"> {
  let summary = "let only few tokens choose experts of other nodes";
  let description = [{
    FasterMoE's topology-aware gate (section 4.3). A node has M ranks. For each choice, at most L = W_net / (M W_local) B
    of B tokens leave their node. The others choose again among the experts of their node. The pass sets this on each
    moe.route.

    The routing differs from that of the plain gate, so another model is trained. M, W_net (`node_link_bytes`) and W_local
    (`link_bytes`) come from the module's `moe.cluster`. If W_local is not known, no token leaves. The pass runs after
    moe-pause-mp. If all ranks that exchange are in one node, nothing changes.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

class MoeResidualOption<string name, string text>
    : Option<name, name, "::mlir::moe::Residual", /*default=*/"::mlir::moe::Residual::keep", text, [{::llvm::cl::values(
        clEnumValN(::mlir::moe::Residual::keep, "keep", "keep in the device's memory"),
        clEnumValN(::mlir::moe::Residual::recompute, "recompute", "compute again"),
        clEnumValN(::mlir::moe::Residual::recommunicate, "recommunicate", "exchange again"),
        clEnumValN(::mlir::moe::Residual::offload, "offload", "keep in the host's memory"))}]>;

def MoeSetResiduals : Pass<"moe-set-residuals", "::mlir::func::FuncOp"> {
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

#endif // MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_TD
