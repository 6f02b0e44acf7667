//===- MoeLayerOps.td - L0: the model graph ------------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOELAYEROPS_TD
#define MOE_DIALECT_MOE_IR_MOELAYEROPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

def Moe_LayerOp : Moe_Op<"layer", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost", "getModelFlops"]>,
    Moe_Partition]> {
  let summary = "a Mixture-of-Experts layer of a model graph";
  let description = [{
    A whole MoE layer. `x` [N, M] holds N tokens. The layer has E experts, and chooses k = `top_k` of them for each token:

    ```
    logits[s,e]  = sum_m x[s,m] gate[m,e] + gate_bias[e]
    score[s,e]   = softmax_e(logits[s,:]) or sigmoid(logits[s,e])
    e_0 .. e_k-1 = the k experts with the largest selection values score[s,e] + selection_bias[e], ties to the lower index
    weight[s,j]  = score[s,e_j], with `renormalize` divided by (sum_j score[s,e_j] + 1e-20), then times routing_scale
    y[s,:]       = sum_j weight[s,j] expert_{e_j}(x[s,:]) + shared(x[s,:]), or with `weigh_inputs`
                   sum_j expert_{e_j}(weight[s,j] x[s,:]) + shared(x[s,:])
    expert_e(x)  = activation(x w1[e] + b1[e]) w2[e] + b2[e]
    shared(x)    = (activation(x shared_w1) shared_w2) * sigmoid(x shared_gate), the last factor 1 without shared_gate
    ```

    *Groups of experts.* With `expert_groups` > 1 the experts form that many groups of consecutive experts. A token
    chooses only among the experts of its `top_groups` best groups. `group_score` scores a group: `max` by its largest
    selection value, `top2` by the sum of its two largest.

    *Activations.* For the swiglu kinds `w1` is [E, M, 2H]. Its columns are interleaved (gate, up) pairs, so that a shard
    of H is contiguous. With a = x w1[e] + b1[e] and h = activation(a):

    - `swiglu`: `h[j] = silu(a[2j]) * a[2j+1]`.
    - `swiglu_clamped`, the activation of gpt-oss: `g = min(a[2j], L)`, `u = clamp(a[2j+1], -L, L)` and
      `h[j] = g * sigmoid(activation_alpha g) * (u + 1)`. L is activation_limit (7), and activation_alpha is 1.702.

    For all other kinds `w1` is [E, M, H]. The shared expert has the same activation and its own inner size.

    *Capacity form* (`capacity_factor` = f or `expert_capacity` = C is given). The N tokens form `groups` = G blocks of
    N/G consecutive tokens. Each block is routed on its own. In a block an expert takes at most
    `T = min(N/G, ceil(k f (N/G) / E))` choices. With C it takes T = min(N/G, C), whatever f says. The first choices of
    all tokens come before the second ones, and then earlier tokens come first. All choices beyond T are dropped: they add
    nothing to y.

    *Dropless form* (neither is given). Every choice is computed. `max_load` is the rows for which a rank reserves
    memory, as a multiple of the mean. More rows are served in further passes (moe-serve-in-passes). Without it memory is
    reserved for the worst case.

    *Topology-aware gate* (FasterMoE; `leave` >= 0). The experts form `homes` equal blocks, and routing group g is at home
    in block (g / home_span) mod homes. For each choice j, at most `leave` tokens of a routing group keep an expert that
    is not at home. moe.route gives the rule.

    *Auxiliary loss.* `aux` is the load-balancing loss of GShard and Switch: the mean over the G groups of
    `E sum_e f_e P_e`. Here f_e is the share of the group's choices that want expert e, dropped ones included. P_e is the
    mean over the group's tokens of `score[s,e]` (softmax) or of `score[s,e] / sum_e' score[s,e']` (sigmoid). Gradients
    flow through the scores, not through the choice.

    Constraints:
    - (C1) N > 0, and `groups` divides N.
    - (C2) 1 <= top_k <= min(32, E). The 32 is a limit of MoePlan.
    - (C3) gate is [M, E]; gate_bias and selection_bias are [E].
    - (C4) w1 is [E, M, A H] and w2 is [E, H, M]. A is 2 for the swiglu kinds and 1 for others. The biases b1 [E, A H] and
      b2 [E, M] are given together or not at all.
    - (C5) shared_w1 is [M, A H'] and shared_w2 is [H', M], and both are given together or not at all. Only with them
      there may be a shared_gate, which is [M, 1].
    - (C6) expert_groups divides E; 1 <= top_groups <= expert_groups; top_groups E / expert_groups >= top_k. With top2 a
      group has at least two experts.
    - (C7) capacity_factor > 0; expert_capacity >= 1; max_load >= 1, and only in the dropless form.
    - (C8) y has the type of x. selection_bias and aux have the accumulator type of x's element type. All other operands
      have x's element type.
    - (C9) activation_alpha and activation_limit are positive.

    Example:

    ```mlir
    func.func @switch(%x: tensor<512x768xf32>, %gate: tensor<768x8xf32>, %w1: tensor<8x768x3072xf32>,
                      %w2: tensor<8x3072x768xf32>) -> (tensor<512x768xf32>, tensor<f32>) {
      %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
        {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
        : (tensor<512x768xf32>, tensor<768x8xf32>, tensor<8x768x3072xf32>, tensor<8x3072x768xf32>)
        -> (tensor<512x768xf32>, tensor<f32>)
      return %y, %aux : tensor<512x768xf32>, tensor<f32>
    }
    ```
  }];
  let arguments = (ins
    StrAttr:$layer_name,
    Moe_Tensor2D:$x, Moe_Tensor2D:$gate,
    Optional<Moe_Tensor1D>:$gate_bias, Optional<Moe_Accumulator1D>:$selection_bias,
    Moe_Tensor3D:$w1, Moe_Tensor3D:$w2,
    Optional<Moe_Tensor2D>:$b1, Optional<Moe_Tensor2D>:$b2,
    Optional<Moe_Tensor2D>:$shared_w1, Optional<Moe_Tensor2D>:$shared_w2, Optional<Moe_Tensor2D>:$shared_gate,
    Moe_Int:$top_k,
    Moe_ActivationAttr:$activation,
    DefaultValuedAttr<F64Attr, "1.702">:$activation_alpha,
    DefaultValuedAttr<F64Attr, "7.0">:$activation_limit,
    DefaultValuedAttr<Moe_ScoreAttr, "::mlir::moe::Score::softmax">:$score,
    UnitAttr:$renormalize,
    UnitAttr:$weigh_inputs,
    DefaultValuedAttr<F64Attr, "1.0">:$routing_scale,
    DefaultValuedAttr<Moe_Int, "1">:$expert_groups,
    DefaultValuedAttr<Moe_Int, "1">:$top_groups,
    DefaultValuedAttr<Moe_GroupScoreAttr, "::mlir::moe::GroupScore::max">:$group_score,
    OptionalAttr<F64Attr>:$capacity_factor,
    OptionalAttr<Moe_Int>:$expert_capacity,
    OptionalAttr<F64Attr>:$max_load,
    DefaultValuedAttr<Moe_Int, "1">:$groups,
    DefaultValuedAttr<Moe_Int, "-1">:$leave,
    DefaultValuedAttr<Moe_Int, "1">:$homes,
    DefaultValuedAttr<Moe_Int, "1">:$home_span);
  let results = (outs Moe_Tensor2D:$y, Moe_AccumulatorScalar:$aux);
  let assemblyFormat = [{
    $layer_name $x `gate` `(` $gate (`,` $gate_bias^)? `)` (`selection_bias` `(` $selection_bias^ `)`)?
    `experts` `(` $w1 `,` $w2 (`,` $b1^ `,` $b2)? `)`
    (`shared` `(` $shared_w1^ `,` $shared_w2 (`,` $shared_gate^)? `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool isDropless() { return !getCapacityFactor() && !getExpertCapacity(); }
    int64_t getNumExperts() { return getGate().getType().getDimSize(1); }
    /// The most choices that one expert takes from a group of `tokens` tokens: T above, or 0 for the dropless form.
    int64_t getCapacity(int64_t tokens);
    /// Number of columns of w1 for each of the H inner columns: 2 for the swiglu kinds, else 1.
    int64_t getActivationWidth();
  }];
}

def Moe_AddOp : Moe_Op<"add", [
    SameOperandsAndResultType, Commutative, Moe_Spmd, Moe_Differentiable,
    DeclareOpInterfaceMethods<MoeRowwiseOpInterface, ["getNumRowOperands"]>, Moe_CostOwn,
    Moe_Kernel<["getInPlaceInputs"]>, Moe_Partition]> {
  let summary = "elementwise sum, at both levels";
  let description = [{
    `result[i] = lhs[i] + rhs[i]`. At L0 both operands have the same layout. At L1 the op is local to a rank.

    Example:

    ```mlir
    func.func @add(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.add %a, %b : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_Tensor:$lhs, Moe_Tensor:$rhs);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasCanonicalizer = 1;
  let hasVerifier = 0;
}

#endif // MOE_DIALECT_MOE_IR_MOELAYEROPS_TD
