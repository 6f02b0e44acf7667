// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-weigh-hidden),canonicalize,cse,func.func(moe-verify-spmd))" | FileCheck %s
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-partition,func.func(moe-pause-mp{schedule=s1},moe-weigh-hidden),canonicalize,cse,func.func(moe-verify-spmd))" | FileCheck %s --check-prefix=S1

// The weights go to the experts as the tokens do, and the results of the experts are added up as they are.

module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // CHECK-LABEL: func.func @layer(
  // CHECK:      [[ONE:%[a-z0-9_]+]] = moe.fill {value = 1.000000e+00 : f64} : tensor<4x1xf32>
  // CHECK-NEXT: [[V:%[a-z0-9_]+]] = moe.to_varying [[ONE]]
  // CHECK-NEXT: [[W:%[a-z0-9_]+]] = moe.dispatch [[V]], {{.*}} weights({{.*}}) : {{.*}} -> tensor<8x1xf32>
  // CHECK-NEXT: [[G:%[a-z0-9_]+]] = moe.all_gather [[W]] over <"esp", 2, 1>
  // CHECK:      [[R:%[a-z0-9_]+]] = moe.all_to_all_v {{.*}} over <"ep", 2, 2> {{.*}} -> tensor<32x1xf32>
  // CHECK-NEXT: [[H:%[a-z0-9_]+]] = moe.row_scale {{.*}}, [[R]] : tensor<32x8xf32>, tensor<32x1xf32>
  // CHECK:      moe.grouped_matmul [[H]], %{{.*}} counts
  // CHECK:      moe.combine
  // CHECK-NOT:  weights
  // CHECK:      return
  // S1-LABEL: func.func @layer(
  // S1:       moe.dispatch {{.*}} weights({{.*}}) : {{.*}} -> tensor<4x1xf32>
  // S1-NEXT:  moe.dump
  // S1-NEXT:  moe.all_to_all_v
  // S1-NEXT:  moe.row_scale
  // S1:       moe.combine
  // S1-NOT:   weights
  // S1:       return
  func.func @layer(%x: tensor<16x24xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<24x4xf32>, %w1: tensor<4x24x16xf32>,
                   %w2: tensor<4x16x24xf32>) -> (tensor<16x24xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<16x24xf32>, tensor<24x4xf32>, tensor<4x24x16xf32>, tensor<4x16x24xf32>) -> (tensor<16x24xf32>, tensor<f32>)
    return %y, %aux : tensor<16x24xf32>, tensor<f32>
  }

  // Rows of a capacity stay as they are.
  // CHECK-LABEL: func.func @capacity(
  // CHECK-NOT:   moe.row_scale
  // CHECK:       moe.combine {{.*}} weights
  func.func @capacity(%x: tensor<16x24xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<24x4xf32>, %w1: tensor<4x24x16xf32>,
                      %w2: tensor<4x16x24xf32>) -> (tensor<16x24xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<16x24xf32>, tensor<24x4xf32>, tensor<4x24x16xf32>, tensor<4x16x24xf32>) -> (tensor<16x24xf32>, tensor<f32>)
    return %y, %aux : tensor<16x24xf32>, tensor<f32>
  }

  // So does a bias behind the last product: it would have to be weighed, too.
  // CHECK-LABEL: func.func @bias(
  // CHECK-NOT:   moe.row_scale
  // CHECK:       moe.combine {{.*}} weights
  func.func @bias(%x: tensor<16x24xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<24x4xf32>, %w1: tensor<4x24x16xf32>,
                  %w2: tensor<4x16x24xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x24xf32>) -> (tensor<16x24xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer" %x gate(%g) experts(%w1, %w2, %b1, %b2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<16x24xf32>, tensor<24x4xf32>, tensor<4x24x16xf32>, tensor<4x16x24xf32>, tensor<4x16xf32>, tensor<4x24xf32>) -> (tensor<16x24xf32>, tensor<f32>)
    return %y, %aux : tensor<16x24xf32>, tensor<f32>
  }

  // And hidden rows that are as wide as the model.
  // CHECK-LABEL: func.func @wide(
  // CHECK-NOT:   moe.row_scale
  // CHECK:       moe.combine {{.*}} weights
  func.func @wide(%x: tensor<16x24xf32> {moe.layout = #moe.layout<[dp], []>}, %g: tensor<24x4xf32>, %w1: tensor<4x24x48xf32>,
                  %w2: tensor<4x48x24xf32>) -> (tensor<16x24xf32>, tensor<f32>) {
    %y, %aux = moe.layer "layer" %x gate(%g) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<16x24xf32>, tensor<24x4xf32>, tensor<4x24x48xf32>, tensor<4x48x24xf32>) -> (tensor<16x24xf32>, tensor<f32>)
    return %y, %aux : tensor<16x24xf32>, tensor<f32>
  }
}
