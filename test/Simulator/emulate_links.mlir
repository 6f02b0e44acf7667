// RUN: moe-sim %s --cluster=localhost --emulate-links | FileCheck %s
// RUN: moe-sim %s --cluster=localhost | FileCheck %s --check-prefix=PLAIN
// RUN: not moe-sim %s --cluster=hgx-h100 --emulate-links 2>&1 | FileCheck %s --check-prefix=BAD

// Two transfers of 100 ms each follow each other on a stream, beside one of 150 ms on another stream. Streams wait
// for links at the same time, and without a processor.
// CHECK: step {{ *}}200.{{[0-9]+}} ms
// PLAIN: step {{ *}}0.{{[0-9]+}} ms
// BAD: cluster 'hgx-h100': expected a cluster whose devices share processors for --emulate-links
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  func.func @rank(%x: memref<4x8xf32>, %y: memref<4x8xf32>, %z: memref<4x8xf32>) attributes {plan.inputs = 1 : i64} {
    %0 = plan.buffer {offset = 0 : i64} : memref<4x8xf32, #plan<space device>>
    plan.launch "all_to_all"(%x) -> (%0) params [0, 0, 1, 0, 1] collective over <"ep", 2, 1> on "comm.intra"
      {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>, seconds = 1.0e-01 : f64}
      : (memref<4x8xf32>) -> memref<4x8xf32, #plan<space device>>
    plan.launch "all_to_all"(%x) -> (%z) params [0, 0, 1, 0, 1] collective over <"ep", 2, 1> on "comm.inter"
      {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>, seconds = 1.5e-01 : f64}
      : (memref<4x8xf32>) -> memref<4x8xf32>
    plan.launch "all_to_all"(%0) -> (%y) params [0, 0, 1, 0, 1] collective over <"ep", 2, 1> on "comm.intra"
      {cost = #plan.cost<network, read = 128, written = 128, collective = all_to_all, payload = 128>, seconds = 1.0e-01 : f64}
      : (memref<4x8xf32, #plan<space device>>) -> memref<4x8xf32>
    return
  }
}
