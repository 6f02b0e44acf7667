// RUN: moe-opt %s --moe-partition --moe-differentiate --moe-optimize="kind=adam clip-norm=1 decay=0.1" --canonicalize --cse \
// RUN:   --moe-verify-spmd | FileCheck %s

// A parameter whose columns are over mp: its squares are added up over mp, those of the replicated one over nothing.
// CHECK-LABEL: func.func @model
// CHECK-SAME: %[[WEIGHTS:[a-z0-9]+]]: tensor<4x8xf32> {moe.layout = #moe.layout<[], [mp]>, moe.name = "w"
// CHECK-SAME: tensor<f32> {moe.layout = #moe.layout<>, moe.name = "learning_rate", moe.role = "rate"}
// CHECK-SAME: tensor<i32> {moe.layout = #moe.layout<>, moe.name = "step", moe.role = "step"}
// CHECK-SAME: tensor<4x8xf32> {moe.layout = #moe.layout<[], [mp]>, moe.name = "w.first", moe.role = "state"}
// CHECK-SAME: moe.name = "gradient_norm", moe.role = "metric"
// CHECK-SAME: moe.name = "w", moe.role = "update", moe.updates = "w"
// CHECK-SAME: moe.name = "step", moe.role = "update", moe.updates = "step"
// CHECK: %[[GRAD:.+]] = moe.all_reduce %{{.+}} over <"dp", 2, 2> : (tensor<4x8xf32>)
// CHECK-DAG: %[[SHARDED:.+]] = moe.sum_squares %[[GRAD]]
// CHECK-DAG: moe.all_reduce %[[SHARDED]] over <"mp", 2, 1>
// CHECK: %[[FACTOR:.+]] = moe.clip_factor %{{.+}} {most = 1.000000e+00 : f64}
// A matrix decays, a bias does not.
// CHECK-DAG: moe.adam %[[WEIGHTS]], %[[GRAD]], {{.*}} factor(%{{.+}}) {{.*}}decay = 1.000000e-01
// CHECK-DAG: moe.adam {{.*}}decay = 0.000000e+00{{.*}}tensor<4xf32>
// CHECK-NOT: grad.
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 1, esp = 1>} {
  func.func @model(%x: tensor<8x4xf32> {moe.name = "x", moe.role = "input"},
                   %labels: tensor<8xi32> {moe.name = "labels", moe.role = "input"},
                   %g: tensor<4xf32> {moe.name = "g", moe.role = "parameter"},
                   %w: tensor<4x16xf32> {moe.name = "w", moe.role = "parameter"})
      -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}) {
    %n = moe.norm %x, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    %y = moe.linear %n, %w {column = 1 : i64} : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %l = moe.cross_entropy %y, %labels : (tensor<8x16xf32>, tensor<8xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }

  // A matrix that is said not to decay, as the biases of experts are.
  // CHECK-LABEL: func.func @biases
  // CHECK: moe.adam {{.*}}decay = 0.000000e+00{{.*}}tensor<4x16xf32>
  func.func @biases(%x: tensor<8x4xf32> {moe.name = "x", moe.role = "input"},
                    %labels: tensor<8xi32> {moe.name = "labels", moe.role = "input"},
                    %b: tensor<4x16xf32> {moe.name = "b", moe.no_decay, moe.role = "parameter"})
      -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}) {
    %y = moe.linear %x, %b : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %l = moe.cross_entropy %y, %labels : (tensor<8x16xf32>, tensor<8xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
