// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --network=link-level --json | FileCheck %s
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --network=link-level --json --link-fault=node0/switch,network:0.5 | FileCheck %s --check-prefix=FAULT

// The exchange takes the time of the profile's line: 1 ms and 4000 bytes of 1 us each.
// CHECK: "step_s": 0.005{{(0*[0-9]+)?}},

// The link out of node 0 has half the speed, so rank 1's bytes take twice as long.
// FAULT: "step_s": 0.009{{(0*[0-9]+)?}},
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%g: memref<1000xf32>) attributes {plan.inputs = 1 : i64} {
    plan.launch "all_reduce"(%g) -> (%g) collective over <"dp", 4, 1> on "comm.inter"
      {absent = array<i64: 1>, cost = #plan.cost<network, collective = all_reduce, payload = 4000>}
      : (memref<1000xf32>) -> memref<1000xf32>
    return
  }
}
