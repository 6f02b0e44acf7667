// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-set-residuals{dispatched=keep hidden=keep}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY --implicit-check-not=moe.residual
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-set-residuals{dispatched=offload hidden=offload}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY,DO,HO --implicit-check-not=moe.residual
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-set-residuals{dispatched=recommunicate hidden=recompute}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY,DR,HR --implicit-check-not=moe.residual
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-set-residuals{dispatched=offload hidden=recompute}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY,DO,HR --implicit-check-not=moe.residual
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-set-residuals{dispatched=keep hidden=keep}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY --implicit-check-not=moe.residual
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-set-residuals{dispatched=offload hidden=offload}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY,DO-S2,HO --implicit-check-not=moe.residual
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-set-residuals{dispatched=recommunicate hidden=recompute}))" \
// RUN:   | FileCheck %s --check-prefixes=ANY,DR-S2,HR --implicit-check-not=moe.residual
// RUN: not moe-opt %s --pass-pipeline="builtin.module(func.func(moe-set-residuals{dispatched=recompute}))" 2>&1 | FileCheck %s --check-prefix=DISPATCHED
// RUN: not moe-opt %s --pass-pipeline="builtin.module(func.func(moe-set-residuals{hidden=recommunicate}))" 2>&1 | FileCheck %s --check-prefix=HIDDEN
// RUN: not moe-opt %s --pass-pipeline="builtin.module(func.func(moe-set-residuals{hidden=swap}))" 2>&1 | FileCheck %s --check-prefix=OTHER

// MPipeMoE's strategies are an offload (DO, HO) or not (DR, HR) of what experts take and of what they compute inside, on the
// baseline and on S2: the same values, whatever lies between. Counts and what goes back stay; so does everything with `keep`.

// DISPATCHED: error: expected dispatched to be keep, offload or recommunicate and hidden to be keep, offload or recompute but got recompute and keep
// HIDDEN: error: {{.*}} but got keep and recommunicate
// OTHER: swap

// ANY-LABEL: func.func @layer(
// DR:    moe.dispatch {{.*}} {moe.residual = #moe<residual recompute>}
// DR-S2: moe.dispatch {{.*}} {moe.residual = #moe<residual recompute>}
// The exchange of esp and what casts its result; S2's share of the rows and its copies for esp.
// DR:    moe.all_gather {{.*}}moe.residual = #moe<residual recommunicate>}
// DR-S2: moe.slice {{.*}}moe.residual = #moe<residual recompute>}
// DR:    moe.to_varying {{.*}} over <"esp", 2, 1> {moe.residual = #moe<residual recompute>}
// DR-S2: moe.dump {{.*}}moe.residual = #moe<residual recompute>} : (tensor<16x8xf32>)
// DO:    moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction to_experts>, moe.residual = #moe<residual offload>}
// DR:    moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction to_experts>, moe.residual = #moe<residual recommunicate>}
// DO-S2: moe.all_to_all_v {{.*}} over <"ep_esp", 4, 1> {{.*}}to_experts>, moe.residual = #moe<residual offload>}
// DR-S2: moe.all_to_all_v {{.*}} over <"ep_esp", 4, 1> {{.*}}to_experts>, moe.residual = #moe<residual recommunicate>}
// HR:    moe.grouped_matmul {{.*}} {moe.residual = #moe<residual recompute>}
// HO:    moe.bias_add {{.*}} {moe.residual = #moe<residual offload>}
// HR:    moe.bias_add {{.*}} {moe.residual = #moe<residual recompute>}
// Elementwise of an offloaded value: made again of it.
// HO:    moe.activation {{.*}}moe.residual = #moe<residual recompute>}
// HR:    moe.activation {{.*}}moe.residual = #moe<residual recompute>}
// ANY:   moe.combine
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  func.func @layer(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>)
      -> tensor<64x8xf32> {
    %y, %aux = moe.layer "layer" %x gate(%g) experts(%w1, %w2, %b1, %b2) {top_k = 2 : i64, activation = #moe<activation relu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y : tensor<64x8xf32>
  }
}
