// RUN: moe-opt %s --moe-partition --canonicalize | FileCheck %s

// On one rank nothing of the exchange is left.
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
  // Capacity form, with biases and a shared expert.
  // CHECK-LABEL: func.func @capacity(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>},
  // CHECK-SAME:   [[B1:%[a-z0-9_]+]]: tensor<4x16xf32> {moe.layout = #moe.layout<[ep], [esp]>},
  // CHECK-SAME:   [[B2:%[a-z0-9_]+]]: tensor<4x8xf32> {moe.layout = #moe.layout<[ep], []>},
  // CHECK-SAME:   [[S1:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.layout = #moe.layout<[], [mp]>},
  // CHECK-SAME:   [[S2:%[a-z0-9_]+]]: tensor<8x8xf32> {moe.layout = #moe.layout<[mp], []>}
  // CHECK-SAME:   ) -> (tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[G]] : (tensor<64x8xf32>, tensor<8x4xf32>) -> tensor<64x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]] {capacity = 32 : i64}
  // CHECK-SAME:   : (tensor<64x4xf32>)
  // CHECK-SAME:   -> (tensor<64x4xf32>, tensor<64x2xi32>, tensor<64x2xi32>, tensor<64x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[SLOTS]]
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<64x2xi32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[DISPATCH]], [[W1]]
  // CHECK-SAME:   : (tensor<4x32x8xf32>, tensor<4x8x16xf32>) -> tensor<4x32x16xf32>
  // CHECK-NEXT:   [[BIAS_ADD:%[a-z0-9_]+]] = moe.bias_add [[GROUPED_MATMUL]], [[B1]]
  // CHECK-SAME:   : (tensor<4x32x16xf32>, tensor<4x16xf32>) -> tensor<4x32x16xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[BIAS_ADD]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<4x32x16xf32>) -> tensor<4x32x16xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[W2]]
  // CHECK-SAME:   : (tensor<4x32x16xf32>, tensor<4x16x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[BIAS_ADD2:%[a-z0-9_]+]] = moe.bias_add [[GROUPED_MATMUL2]], [[B2]]
  // CHECK-SAME:   : (tensor<4x32x8xf32>, tensor<4x8xf32>) -> tensor<4x32x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[BIAS_ADD2]], [[SLOTS]] weights([[WEIGHTS]])
  // CHECK-SAME:   : (tensor<4x32x8xf32>, tensor<64x2xi32>, tensor<64x2xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[MATMUL2:%[a-z0-9_]+]] = moe.matmul [[X]], [[S1]] : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ACTIVATION2:%[a-z0-9_]+]] = moe.activation [[MATMUL2]] {kind = #moe<activation gelu>}
  // CHECK-SAME:   : (tensor<64x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[MATMUL3:%[a-z0-9_]+]] = moe.matmul [[ACTIVATION2]], [[S2]]
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   [[ADD:%[a-z0-9_]+]] = moe.add [[COMBINE]], [[MATMUL3]] : tensor<64x8xf32>
  // CHECK-NEXT:   return [[ADD]], [[AUX]] : tensor<64x8xf32>, tensor<f32>
  func.func @capacity(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>, %b1:
                      tensor<4x16xf32>, %b2: tensor<4x8xf32>, %s1: tensor<8x8xf32>, %s2: tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "capacity" %x gate(%g) experts(%w1, %w2, %b1, %b2) shared(%s1, %s2)
      {top_k = 2 : i64, activation = #moe<activation gelu>, capacity_factor = 1.0 : f64}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }

  // Dropless form.
  // CHECK-LABEL: func.func @dropless(
  // CHECK-SAME:   [[X:%[a-z0-9_]+]]: tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>},
  // CHECK-SAME:   [[G:%[a-z0-9_]+]]: tensor<8x4xf32> {moe.layout = #moe.layout<[], []>},
  // CHECK-SAME:   [[W1:%[a-z0-9_]+]]: tensor<4x8x16xf32> {moe.layout = #moe.layout<[ep], [], [esp]>},
  // CHECK-SAME:   [[W2:%[a-z0-9_]+]]: tensor<4x16x8xf32> {moe.layout = #moe.layout<[ep], [esp], []>}
  // CHECK-SAME:   ) -> (tensor<64x8xf32> {moe.layout = #moe.layout<[dp], []>}, tensor<f32> {moe.layout = #moe.layout<>})
  // CHECK-NEXT:   [[MATMUL:%[a-z0-9_]+]] = moe.matmul [[X]], [[G]] : (tensor<64x8xf32>, tensor<8x4xf32>) -> tensor<64x4xf32>
  // CHECK-NEXT:   [[SCORES:%[a-z0-9_]+]], [[EXPERTS:%[a-z0-9_]+]], [[SLOTS:%[a-z0-9_]+]],
  // CHECK-SAME:   [[WEIGHTS:%[a-z0-9_]+]], [[COUNTS:%[a-z0-9_]+]], [[AUX:%[a-z0-9_]+]] =
  // CHECK-SAME:   moe.route [[MATMUL]]
  // CHECK-SAME:   : (tensor<64x4xf32>)
  // CHECK-SAME:   -> (tensor<64x4xf32>, tensor<64x2xi32>, tensor<64x2xi32>, tensor<64x2xf32>, tensor<1x4xi32>, tensor<f32>)
  // CHECK-NEXT:   [[DISPATCH:%[a-z0-9_]+]] = moe.dispatch [[X]], [[SLOTS]]
  // CHECK-SAME:   : (tensor<64x8xf32>, tensor<64x2xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL:%[a-z0-9_]+]] = moe.grouped_matmul [[DISPATCH]], [[W1]] counts([[COUNTS]])
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<4x8x16xf32>, tensor<1x4xi32>) -> tensor<128x16xf32>
  // CHECK-NEXT:   [[ACTIVATION:%[a-z0-9_]+]] = moe.activation [[GROUPED_MATMUL]] counts([[COUNTS]])
  // CHECK-SAME:   {kind = #moe<activation gelu>} : (tensor<128x16xf32>, tensor<1x4xi32>) -> tensor<128x16xf32>
  // CHECK-NEXT:   [[GROUPED_MATMUL2:%[a-z0-9_]+]] = moe.grouped_matmul [[ACTIVATION]], [[W2]] counts([[COUNTS]])
  // CHECK-SAME:   : (tensor<128x16xf32>, tensor<4x16x8xf32>, tensor<1x4xi32>) -> tensor<128x8xf32>
  // CHECK-NEXT:   [[COMBINE:%[a-z0-9_]+]] = moe.combine [[GROUPED_MATMUL2]], [[SLOTS]] weights([[WEIGHTS]])
  // CHECK-SAME:   : (tensor<128x8xf32>, tensor<64x2xi32>, tensor<64x2xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT:   return [[COMBINE]], [[AUX]] : tensor<64x8xf32>, tensor<f32>
  func.func @dropless(%x: tensor<64x8xf32>, %g: tensor<8x4xf32>, %w1: tensor<4x8x16xf32>, %w2: tensor<4x16x8xf32>) ->
                      (tensor<64x8xf32>, tensor<f32>) {
    %y, %aux = moe.layer "dropless" %x gate(%g) experts(%w1, %w2)
      {top_k = 2 : i64, activation = #moe<activation gelu>}
      : (tensor<64x8xf32>, tensor<8x4xf32>, tensor<4x8x16xf32>, tensor<4x16x8xf32>) -> (tensor<64x8xf32>, tensor<f32>)
    return %y, %aux : tensor<64x8xf32>, tensor<f32>
  }
}
