// RUN: moe-opt %s --moe-split-stages --split-input-file -verify-diagnostics | FileCheck %s

// Three stages on two members: the second and the third are on one, so nothing is sent between them.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 2, dp = 1, mp = 1, ep = 1, esp = 1>} {
  // CHECK: func.func @stage0
  // CHECK-NOT: moe.stage_devices
  // CHECK: moe.scale {{.*}}#moe.stage<0>
  // CHECK: moe.send {{.*}} to 1
  // CHECK: func.func @stage1
  // CHECK: moe.receive from 0
  // CHECK-NEXT: moe.scale {{.*}}#moe.stage<1>
  // CHECK-NEXT: moe.scale {{.*}}#moe.stage<2>
  // CHECK-NEXT: return
  func.func @rank(%x: tensor<4xf32> {moe.name = "x", moe.role = "input"}) -> (tensor<4xf32> {moe.name = "y", moe.role = "output"})
      attributes {moe.stage_devices = array<i64: 0, 1, 1>} {
    %0 = moe.scale %x {factor = 2.0 : f64, moe.stage = #moe.stage<0>} : tensor<4xf32>
    %1 = moe.scale %0 {factor = 2.0 : f64, moe.stage = #moe.stage<1>} : tensor<4xf32>
    %2 = moe.scale %1 {factor = 2.0 : f64, moe.stage = #moe.stage<2>} : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 2, dp = 1, mp = 1, ep = 1, esp = 1>} {
  // expected-error @below {{expected 'moe.stage_devices' to have a device from 0 to 1 for each of 2 stages but got array<i64: 0>}}
  func.func @few(%x: tensor<4xf32> {moe.name = "x", moe.role = "input"}) -> (tensor<4xf32> {moe.name = "y", moe.role = "output"})
      attributes {moe.stage_devices = array<i64: 0>} {
    %0 = moe.scale %x {factor = 2.0 : f64, moe.stage = #moe.stage<0>} : tensor<4xf32>
    %1 = moe.scale %0 {factor = 2.0 : f64, moe.stage = #moe.stage<1>} : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 2, dp = 1, mp = 1, ep = 1, esp = 1>} {
  // expected-error @below {{a device from 0 to 1 for each of 1 stages but got array<i64: 2>}}
  func.func @far(%x: tensor<4xf32> {moe.name = "x", moe.role = "input"}) -> (tensor<4xf32> {moe.name = "y", moe.role = "output"})
      attributes {moe.stage_devices = array<i64: 2>} {
    %0 = moe.scale %x {factor = 2.0 : f64, moe.stage = #moe.stage<0>} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
