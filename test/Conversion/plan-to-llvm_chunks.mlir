// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s

// A part of a part, the same on all ranks, is where it is in the argument: part 1 of 2 of part 2 of 4 begins behind 80 of 128 bytes. It
// is one part of one, so that the argument may be larger.
// CHECK:      @moeplan_v0_rank_buffers(dense<[
// CHECK-SAME: [2, 0, 2, 1, 4, 0, 0, 1, 0, 1, 80],

// A rank has one of two parts of the half of a buffer that begins after 32 bytes, at 544 of the arena.
// CHECK-SAME: [0, 544, 2, 1, 4, 0, 0, 2, 1, 1, 0]

// Two ways to say one part are one buffer.
// CHECK-SAME: ]> : tensor<2x11xi64>

// The metadata says for which cluster the plan is, how long each transfer takes alone there, and in how many chunks a variant is.
// CHECK:      @moeplan_metadata("{\22moeplan\22:5,\22abi\22:9,\22compiler\22:\22{{[0-9.]+}}\22,\22variants\22:[
// CHECK-SAME: {\22batch\22:1,\22sequence\22:8,\22chunks\22:4,\22world\22:2
// CHECK-SAME: \22cluster\22:\22toy\22
// CHECK-SAME: {\22name\22:\22copy\22,{{[^}]*}}\22rows\22:0,\22seconds\22:2.5{{[0-9]*}}e-05}
// CHECK-SAME: {\22name\22:\22add\22,{{[^}]*}}\22rows\22:0}
module {
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>, plan.batch = 1 : i64, plan.sequence = 8 : i64,
                     plan.chunks = 4 : i64, plan.cluster = "toy"} {
    func.func @rank(%x: memref<8x4xf32> {moe.name = "x"}) {
      %0 = plan.view %x part 2 of 4 : memref<8x4xf32> -> memref<2x4xf32>
      %1 = plan.view %0 part 1 of 2 : memref<2x4xf32> -> memref<1x4xf32>
      %2 = plan.buffer {offset = 512 : i64} : memref<4x4xf32, #plan<space device>>
      %3 = plan.view %2 part 1 of 2 : memref<4x4xf32, #plan<space device>> -> memref<2x4xf32, #plan<space device>>
      %4 = plan.view %3 part 1 of 2 over <"ep", 2, 1> : memref<2x4xf32, #plan<space device>> -> memref<1x4xf32, #plan<space device>>
      %5 = plan.view %x part 5 of 8 : memref<8x4xf32> -> memref<1x4xf32>
      plan.launch "copy"(%1) -> (%4) on "copy" {seconds = 2.5e-5 : f64} : (memref<1x4xf32>) -> memref<1x4xf32, #plan<space device>>
      plan.launch "add"(%4, %5) -> (%4) on "compute" : (memref<1x4xf32, #plan<space device>>, memref<1x4xf32>) -> memref<1x4xf32, #plan<space device>>
      return
    }
    func.func @reference(%x: memref<8x4xf32> {moe.name = "x"})
        attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<8x4xf32>) -> memref<8x4xf32>
      return
    }
  }
}
