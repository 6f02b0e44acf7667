// RUN: moe-opt %s --moe-price-ops=cluster=%share/clusters/hgx-h100.json | FileCheck %s
// RUN: moe-opt %s --moe-price-ops=cluster=%share/clusters/hgx-h100.json --moe-order-micro-batches="devices=1 order=1f1b side-by-side=2" | FileCheck %s --check-prefix=ORDER
// RUN: not moe-opt %s --moe-price-ops=cluster=%t/none.json 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: error: {{.*}}none.json

// A product of 4096 x 7168 x 4096 is 2.4e11 FLOPs: 2.4e-4 s at 989 TFLOP/s, and more at the rate of the profile. What
// moves no data has no price. Seconds that an op has already are replaced.
// CHECK-LABEL: func.func @step
// CHECK: moe.matmul {{.*}}moe.seconds = {{[3-5][.][0-9]+E-4}} : f64
// CHECK: moe.all_to_all {{.*}}moe.seconds = {{[5-9][.][0-9]+E-4}} : f64

// The order is that of the window: the exchange of one micro-batch beside the product of the other. No price is left.
// ORDER-LABEL: func.func @step
// ORDER-NOT: moe.seconds
// ORDER: moe.matmul {{.*}}<0 of 2>
// ORDER-NEXT: moe.all_to_all {{.*}}<0 of 2>
// ORDER-NEXT: moe.matmul {{.*}}<1 of 2>
// ORDER-NEXT: moe.all_to_all {{.*}}<1 of 2>
// ORDER-NOT: moe.seconds
module attributes {moe.parallel = #moe.parallel<world = 16, pp = 1, dp = 16, mp = 1, ep = 16, esp = 1>} {
func.func @step(%x: tensor<4096x4096xbf16>, %w: tensor<4096x7168xbf16>) -> (tensor<4096x7168xbf16>, tensor<4096x7168xbf16>) {
  %f0 = moe.matmul %x, %w {moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>, moe.seconds = 1.0 : f64} : (tensor<4096x4096xbf16>, tensor<4096x7168xbf16>) -> tensor<4096x7168xbf16>
  %e0 = moe.all_to_all %f0 over <"ep", 16, 1> {split_dim = 0 : i64, concat_dim = 0 : i64, moe.micro_batch = #moe.chunk<0 of 2>, moe.stage = #moe.stage<0>} : (tensor<4096x7168xbf16>) -> tensor<4096x7168xbf16>
  %f1 = moe.matmul %x, %w {moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : (tensor<4096x4096xbf16>, tensor<4096x7168xbf16>) -> tensor<4096x7168xbf16>
  %e1 = moe.all_to_all %f1 over <"ep", 16, 1> {split_dim = 0 : i64, concat_dim = 0 : i64, moe.micro_batch = #moe.chunk<1 of 2>, moe.stage = #moe.stage<0>} : (tensor<4096x7168xbf16>) -> tensor<4096x7168xbf16>
  return %e0, %e1 : tensor<4096x7168xbf16>, tensor<4096x7168xbf16>
}
}
