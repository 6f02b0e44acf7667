// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --json | FileCheck %s --check-prefixes=CHECK,CLOSED
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --json --all-ranks | FileCheck %s --check-prefixes=CHECK,CLOSED
// RUN: moe-sim %s --cluster=%S/Inputs/toy.json --json --network=link-level | FileCheck %s --check-prefixes=CHECK,LINKS

// An exchange of 1000 bytes between all pairs of two nodes of two, in two phases: inside the nodes and between them. In
// closed form the whole takes 1 + 2 + 1 ms, because both devices share the link out of the node in the second step. Phase 0
// is a third of it, phase 1 two thirds, beside which the all_gather of 1 ms does not count.
// CLOSED: "step_s": 0.004{{(0*[0-9])?}},
// On links phase 0 takes 1 ms. Then both devices of a node send 1000 bytes to each on the other node, each at half
// speed; beside the all_gather to the neighbour, which takes the other half of their links, they lose nothing.
// LINKS: "step_s": 0.005{{(0*[0-9])?}},

// A view is part of its buffer: 2 * 4000 bytes of arguments, and 4000 of the buffer whose parts the phases write.
// CHECK: "peak_bytes": 12000,
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 4, esp = 1>} {
  func.func @rank(%a: memref<4x250xf32>, %g: memref<4x250xf32>) attributes {plan.inputs = 1 : i64} {
    %whole = plan.buffer {offset = 0 : i64} : memref<4x250xf32, #plan<space device>>
    %0 = plan.view %whole part 0 of 2 over <"ep", 4, 1>
      : memref<4x250xf32, #plan<space device>> -> memref<2x250xf32, #plan<space device>>
    %1 = plan.view %whole part 1 of 2 over <"ep", 4, 1>
      : memref<4x250xf32, #plan<space device>> -> memref<2x250xf32, #plan<space device>>
    plan.launch "all_to_all"(%a) -> (%0) params [0, 0, 1, 0, 2] collective over <"ep", 4, 1> on "comm.inter"
      {cost = #plan.cost<network, collective = all_to_all, payload = 2000, phase = [0, 2]>}
      : (memref<4x250xf32>) -> memref<2x250xf32, #plan<space device>>
    plan.record 0 on "comm.inter"
    plan.launch "all_to_all"(%a) -> (%1) params [0, 0, 1, 1, 2] collective over <"ep", 4, 1> on "comm.inter"
      {cost = #plan.cost<network, collective = all_to_all, payload = 2000, phase = [1, 2]>}
      : (memref<4x250xf32>) -> memref<2x250xf32, #plan<space device>>
    plan.wait 0 on "comm.intra"
    plan.launch "all_gather"(%0) -> (%g) params [0] collective over <"mp", 2, 1> on "comm.intra"
      {cost = #plan.cost<network, collective = all_gather, payload = 2000>}
      : (memref<2x250xf32, #plan<space device>>) -> memref<4x250xf32>
    return
  }
}
