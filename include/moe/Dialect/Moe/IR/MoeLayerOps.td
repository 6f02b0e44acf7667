//===- MoeLayerOps.td - L0: the model graph ------------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOELAYEROPS_TD
#define MOE_DIALECT_MOE_IR_MOELAYEROPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

def Moe_LayerOp : Moe_Op<"layer", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost", "getModelFlops"]>,
    Moe_Partition]> {
  let summary = "a Mixture-of-Experts layer of a model graph";
  let description = [{
    For tokens `x` [N, M], E experts and the k best of them for each token:

    ```
    logits[s,e]  = sum_m x[s,m] gate[m,e] + gate_bias[e]
    score[s,e]   = softmax_e(logits[s,:]) or sigmoid(logits[s,e])
    e_0 .. e_k-1 = the k experts of largest score[s,e] + selection_bias[e], ties to the lower index; with
                   expert_groups > 1 only experts of the top_groups best of that many consecutive groups of experts
                   (a group's own score: its largest selection value, or the sum of its two largest)
    weight[s,j]  = score[s,e_j], divided by (sum_j score[s,e_j] + 1e-20) with `renormalize`, times routing_scale
    y[s,:]       = sum_j weight[s,j] expert_{e_j}(x[s,:]) + shared(x[s,:]), or with `weigh_inputs`
                   sum_j expert_{e_j}(weight[s,j] x[s,:]) + shared(x[s,:])
    expert_e(x)  = activation(x w1[e] + b1[e]) w2[e] + b2[e]
    shared(x)    = (activation(x shared_w1) shared_w2) * sigmoid(x shared_gate), the factor 1 without shared_gate
    ```

    For the swiglu kinds `w1` is [E, M, 2H] and its columns are interleaved (gate, up) pairs, so that a shard of H is
    contiguous: `h[j] = silu(a[2j]) * a[2j+1]`; `swiglu_clamped` is gpt-oss's, with L = activation_limit (7) and
    activation_alpha (1.702): `g = min(a[2j], L)`, `u = clamp(a[2j+1], -L, L)`, `h[j] = g * sigmoid(activation_alpha g) * (u + 1)`.
    The other kinds have `w1` [E, M, H]. The shared expert has an inner size of its own and the same activation.

    *Capacity form* (`capacity_factor` = f or `expert_capacity` = C present): the N tokens form `groups` = G blocks of N/G consecutive tokens, routed
    apart from each other. In each, an expert takes at most `T = min(N/G, ceil(k f (N/G) / E))` choices, first choices of all tokens
    before second ones, then by token; the others are dropped and add nothing to y. With C it is T = min(N/G, C), whatever f
    says.

    *Dropless form* (both absent): every choice is computed. `max_load` bounds the rows that a rank's experts may receive to that
    multiple of the mean; absent, memory for the worst case is reserved.

    With `leave` >= 0 at most that many tokens of a routing group keep a choice outside of the group's own block of experts,
    number (g / home_span) mod homes for group g, as in moe.route: FasterMoE's topology-aware gate.

    `aux` is the load-balancing loss of GShard and Switch, the mean over the G groups of `E sum_e f_e P_e`: f_e the share of
    the group's choices that want expert e (dropped ones included), P_e the mean over its tokens of `score[s,e]` (softmax)
    or `score[s,e] / sum_e' score[s,e']` (sigmoid). Gradients flow through the scores, not through the choice.

    Constraints:
    - (C1) N > 0, and `groups` divides N.
    - (C2) 1 <= top_k <= min(32, E); 32 is a limit of MoePlan.
    - (C3) gate is [M, E]; gate_bias and selection_bias are [E].
    - (C4) w1 is [E, M, A H], w2 is [E, H, M], A = 2 for the swiglu kinds, else 1; b1 is [E, A H], b2 is [E, M], both or none.
    - (C5) shared_w1 is [M, A H'], shared_w2 is [H', M], both or none; shared_gate is [M, 1] and needs them.
    - (C6) expert_groups divides E; 1 <= top_groups <= expert_groups; top_groups E / expert_groups >= top_k; a group scored
      by top2 has at least two experts.
    - (C7) capacity_factor > 0; expert_capacity >= 1; max_load >= 1, and only in the dropless form.
    - (C8) y has x's type; selection_bias and aux have the accumulator type of x's element type, all others that itself.
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
    I64Attr:$top_k,
    Moe_ActivationAttr:$activation,
    DefaultValuedAttr<F64Attr, "1.702">:$activation_alpha,
    DefaultValuedAttr<F64Attr, "7.0">:$activation_limit,
    DefaultValuedAttr<Moe_ScoreAttr, "::mlir::moe::Score::softmax">:$score,
    UnitAttr:$renormalize,
    UnitAttr:$weigh_inputs,
    DefaultValuedAttr<F64Attr, "1.0">:$routing_scale,
    DefaultValuedAttr<I64Attr, "1">:$expert_groups,
    DefaultValuedAttr<I64Attr, "1">:$top_groups,
    DefaultValuedAttr<Moe_GroupScoreAttr, "::mlir::moe::GroupScore::max">:$group_score,
    OptionalAttr<F64Attr>:$capacity_factor,
    OptionalAttr<I64Attr>:$expert_capacity,
    OptionalAttr<F64Attr>:$max_load,
    DefaultValuedAttr<I64Attr, "1">:$groups,
    DefaultValuedAttr<I64Attr, "-1">:$leave,
    DefaultValuedAttr<I64Attr, "1">:$homes,
    DefaultValuedAttr<I64Attr, "1">:$home_span);
  let results = (outs Moe_Tensor2D:$y, Moe_AccumulatorScalar:$aux);
  let assemblyFormat = [{
    $layer_name $x `gate` `(` $gate (`,` $gate_bias^)? `)` (`selection_bias` `(` $selection_bias^ `)`)?
    `experts` `(` $w1 `,` $w2 (`,` $b1^ `,` $b2)? `)`
    (`shared` `(` $shared_w1^ `,` $shared_w2 (`,` $shared_gate^)? `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isDropless() { return !getCapacityFactor() && !getExpertCapacity(); }
    int64_t getNumExperts() { return getGate().getType().getDimSize(1); }
    /// Choices that one expert takes of a group of `tokens` tokens: T above; 0 if dropless.
    int64_t getCapacity(int64_t tokens);
    /// Columns of w1 for each of the H inner columns: 2 for the swiglu kinds.
    int64_t getActivationWidth();
  }];
}

def Moe_AddOp : Moe_Op<"add", [
    SameOperandsAndResultType, Commutative, Moe_Spmd, Moe_Differentiable,
    DeclareOpInterfaceMethods<MoeRowwiseOpInterface, ["getNumRowOperands"]>, Moe_CostOwn,
    Moe_Kernel<["getInPlaceInputs"]>, Moe_Partition]> {
  let summary = "elementwise sum, at both levels";
  let description = [{
    `result[i] = lhs[i] + rhs[i]`. At L0 both have one layout; at L1 it is rank-local.

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
}

#endif // MOE_DIALECT_MOE_IR_MOELAYEROPS_TD
