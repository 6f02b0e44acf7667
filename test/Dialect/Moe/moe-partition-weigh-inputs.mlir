// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-verify-spmd | FileCheck %s --check-prefixes=ALL,BASE
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-pause-mp{schedule=s1}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=ALL,S1
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,canonicalize,cse,func.func(moe-pause-mp{schedule=s2}),canonicalize,cse,func.func(moe-verify-spmd))" \
// RUN:   | FileCheck %s --check-prefixes=ALL,S2
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-differentiate --canonicalize --cse --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=BACK

// With weigh_inputs the dispatch has the weights of the choices and the combine none, in each schedule.
// ALL-LABEL: func.func @layer
// ALL: %{{.+}}, %{{.+}}, %[[SLOTS:.+]], %[[WEIGHTS:.+]], %{{.+}}, %{{.+}} = moe.route
// BASE: moe.dispatch %{{.+}}, %{{.+}} weights(%{{.+}}) : (tensor<16x8xf32>, tensor<16x1xi32>, tensor<16x1xf32>)
// S1: moe.dispatch %{{.+}}, %[[SLOTS]] weights(%[[WEIGHTS]]) : (tensor<8x8xf32>, tensor<8x1xi32>, tensor<8x1xf32>)
// S2: moe.dispatch %{{.+}}, %[[SLOTS]] weights(%[[WEIGHTS]]) : (tensor<16x8xf32>, tensor<16x1xi32>, tensor<16x1xf32>)
// ALL: moe.combine %{{.+}}, %{{.+}} : (tensor<4x{{[0-9]+}}x8xf32>

// The weights' gradient is the product of the tokens and the gradients of their rows.
// BACK-LABEL: func.func @layer
// BACK: moe.slot_dot
// BACK: moe.route_grad
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 2>} {
  func.func @layer(%x: tensor<32x8xf32> {moe.name = "x", moe.role = "input"},
                   %g: tensor<8x4xf32> {moe.name = "g", moe.role = "parameter"},
                   %w1: tensor<4x8x16xf32> {moe.name = "w1", moe.role = "parameter"},
                   %w2: tensor<4x8x8xf32> {moe.name = "w2", moe.role = "parameter"})
      -> (tensor<32x8xf32> {moe.name = "y", moe.role = "output"}) {
    %y, %aux = moe.layer "l" %x gate(%g) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation swiglu>, score = #moe<score sigmoid>, weigh_inputs, capacity_factor = 2.0 : f64}
      : (tensor<32x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x8x8xf32>) -> (tensor<32x8xf32>, tensor<f32>)
    return %y : tensor<32x8xf32>
  }
}
