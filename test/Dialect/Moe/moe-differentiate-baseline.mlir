// RUN: moe-opt %s --moe-partition --moe-differentiate --moe-verify-spmd --canonicalize --cse \
// RUN:   | FileCheck %s --implicit-check-not="= moe.all_" --implicit-check-not="= moe.reduce"

// The baseline's backward has the paper's collectives and no other: AG_ESP(X) + 2 A2A_EP(X) + RS_ESP(X), and the gradient
// sums that are due. None is placed by hand: all are adjoints of what the forward holds.
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 2, esp = 2>} {
  // Capacity form. Backward: AllGather over esp (of ESP-Split), two AlltoAlls over ep, ReduceScatter over esp (of ESP-AllGather);
  // the gradients of x and of the weights are summed over mp, whose members did the same work; that of the gate over dp, those of
  // the experts over edp.
  // CHECK-LABEL: func.func @capacity(
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_reduce {{.*}} over <"esp", 2, 1>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<f32>)
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.reduce_scatter {{.*}} over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x8xf32>)
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x2xf32>)
  // CHECK: [[DG:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<8x4xf32>)
  // CHECK: [[DW1:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: [[DW2:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: return {{%[0-9]+, %[0-9]+, %[0-9]+}}, [[DG]], [[DW1]], [[DW2]] :
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless form: the same with ragged exchanges; counts are exchanged forward only.
  // CHECK-LABEL: func.func @dropless(
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1> {{.*}} -> tensor<64x8xf32>
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1> {{.*}} -> tensor<2x4xi32>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2> {{.*}} -> tensor<4x2xi32>
  // CHECK: = moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction to_experts>}
  // CHECK: = moe.all_reduce {{.*}} counts({{.*}}) over <"esp", 2, 1>
  // CHECK: = moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction from_experts>}
  // CHECK: = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<f32>)
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1> {{.*}} -> tensor<64x8xf32>
  // CHECK: = moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction to_experts>}
  // CHECK: = moe.all_to_all_v {{.*}} over <"ep", 2, 2> {direction = #moe<direction from_experts>}
  // CHECK: = moe.reduce_scatter {{.*}} over <"esp", 2, 1> {dim = 0 : i64}
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x8xf32>)
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x2xf32>)
  // CHECK: [[DG:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<8x4xf32>)
  // CHECK: [[DW1:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: [[DW2:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: return {{%[0-9]+, %[0-9]+, %[0-9]+}}, [[DG]], [[DW1]], [[DW2]] :
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // The second bias is a share of esp's: its gradient is summed over esp (here named after mp, the same ranks) besides edp.
  // CHECK-LABEL: func.func @biases(
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_reduce {{.*}} over <"esp", 2, 1>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<f32>)
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.reduce_scatter {{.*}} over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x8xf32>)
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x2xf32>)
  // CHECK: [[DG:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<8x4xf32>)
  // CHECK: [[DW1:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: [[DB1:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8xf32>)
  // CHECK: [[DW2:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: [[DB2SUM:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8xf32>)
  // CHECK: [[DB2:%[0-9]+]] = moe.all_reduce [[DB2SUM]] over <"mp", 2, 1>
  // CHECK: return {{%[0-9]+, %[0-9]+, %[0-9]+}}, [[DG]], [[DW1]], [[DW2]], [[DB1]], [[DB2]] :
  func.func @biases(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1: tensor<4x16xf32>, %b2: tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "biases" %x gate(%g) experts(%w1, %w2, %b1, %b2)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // A shared expert adds one sum over mp forward; backward it shares the sum of dx, and its own gradients are summed over dp.
  // CHECK-LABEL: func.func @shared(
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_reduce {{.*}} over <"esp", 2, 1>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x8xf32>)
  // CHECK: = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<f32>)
  // CHECK: = moe.all_gather {{.*}} over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x8x8xf32>) -> tensor<4x16x8xf32>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.all_to_all {{.*}} over <"ep", 2, 2>
  // CHECK: = moe.reduce_scatter {{.*}} over <"esp", 2, 1> {dim = 1 : i64} : (tensor<4x16x8xf32>) -> tensor<4x8x8xf32>
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x8xf32>)
  // CHECK: = moe.all_reduce {{.*}} over <"mp", 2, 1> : (tensor<16x2xf32>)
  // CHECK: [[DG:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<8x4xf32>)
  // CHECK: [[DW1:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: [[DW2:%[0-9]+]] = moe.all_reduce {{.*}} over <"edp", 2, 4> : (tensor<2x8x8xf32>)
  // CHECK: [[DS1:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<8x4xf32>)
  // CHECK: [[DS2:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<4x8xf32>)
  // CHECK: [[DSG:%[0-9]+]] = moe.all_reduce {{.*}} over <"dp", 4, 2> : (tensor<8x1xf32>)
  // CHECK: return {{%[0-9]+, %[0-9]+, %[0-9]+}}, [[DG]], [[DW1]], [[DW2]], [[DS1]], [[DS2]], [[DSG]] :
  func.func @shared(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %s1: tensor<8x8xf32>, %s2: tensor<8x8xf32>, %sg: tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "shared" %x gate(%g) experts(%w1, %w2) shared(%s1, %s2, %sg)
      {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x1xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
