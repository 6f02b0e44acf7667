// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --json | FileCheck %s
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --json --all-ranks | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --json --straggler=2:2 | FileCheck %s --check-prefix=SLOW
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json | FileCheck %s --check-prefix=TEXT
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --trace=%t.json && FileCheck %s --check-prefix=TRACE --input-file=%t.json

// A product of 1 ms, then an all_reduce of 1 ms + 1000 bytes * 1 us = 2 ms beside a second product. While both run each
// goes at half speed: the product from 1 to 3 ms, half of the all_reduce meanwhile, its other half alone to 4 ms.
// CHECK: "step_s": 0.004{{(0*[0-9])?}},
// CHECK: "mean": {
// CHECK: "communication_s": 0.003{{(0*[0-9])?}},
// CHECK-NEXT: "copy_s": 0,
// CHECK-NEXT: "exposed_communication_s": 0.001{{(0*[0-9])?}},
// CHECK-NEXT: "bubble_s": 0,

// Simulating every rank gives the same.
// ALL: "rank": 3,

// Rank 2 computes half as fast. The others have done both products when it arrives after 2 ms. Its second product has 2 ms of
// work at half speed, and holds the exchange of all at half speed until 6 ms.
// SLOW: "step_s": 0.006{{(0*[0-9])?}},

// The needs of this plan's model are unknown.
// TEXT: step 4.000 ms
// TEXT-NEXT: speed not known: the plan does not say what its model needs
// TEXT-NEXT: time computation 75.0%, exposed communication 25.0%, bubble 0.0%, other 0.0%
// TEXT: all_reduce [dp]

// TRACE-DAG: "name":"all_reduce [dp]"
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%a: memref<10x5000xf32>, %b: memref<5000x10xf32>, %g: memref<250xf32>, %c: memref<10x10xf32>,
                  %d: memref<10x10xf32>) attributes {plan.inputs = 3 : i64} {
    plan.launch "matmul"(%a, %b) -> (%c) params [0, 0] on "compute"
      {label = "first", cost = #plan.cost<matrix, flops = 1.0e6, read = 400000, written = 400, gemm = [1, 10, 10, 5000]>}
      : (memref<10x5000xf32>, memref<5000x10xf32>) -> memref<10x10xf32>
    plan.record 0 on "compute"
    plan.wait 0 on "comm.inter"
    plan.launch "all_reduce"(%g) -> (%g) collective over <"dp", 4, 1> on "comm.inter"
      {absent = array<i64: 1>, cost = #plan.cost<network, collective = all_reduce, payload = 1000>}
      : (memref<250xf32>) -> memref<250xf32>
    plan.launch "matmul"(%a, %b) -> (%d) params [0, 0] on "compute"
      {label = "second", cost = #plan.cost<matrix, flops = 1.0e6, read = 400000, written = 400, gemm = [1, 10, 10, 5000]>}
      : (memref<10x5000xf32>, memref<5000x10xf32>) -> memref<10x10xf32>
    return
  }
}
