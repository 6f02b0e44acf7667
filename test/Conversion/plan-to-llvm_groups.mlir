// RUN: moe-opt %s --convert-plan-to-llvm | FileCheck %s

// Groups that #moe.parallel does not name are added, one of a known size and stride too, since calls say it by name; one that takes a
// known name for something else is told apart. Without a reference there is an empty object.
// CHECK: \22name\22:\22world\22,\22size\22:8,\22stride\22:1},{\22name\22:\22pair\22,\22size\22:2,\22stride\22:1},{\22name\22:\22half\22,\22size\22:4,\22stride\22:1},{\22name\22:\22mp_2_4\22,\22size\22:2,\22stride\22:4}]
// CHECK-SAME: \22group\22:\22pair\22
// CHECK-SAME: \22group\22:\22half\22
// CHECK-SAME: \22group\22:\22mp_2_4\22
// CHECK-SAME: \22reference\22:{}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 8, esp = 1>} {
  func.func @rank(%x: memref<4xf32>) {
    plan.launch "assume_replicated"(%x) -> () collective over <"pair", 2, 1> on "compute" : (memref<4xf32>) -> ()
    plan.launch "assume_replicated"(%x) -> () collective over <"half", 4, 1> on "compute" : (memref<4xf32>) -> ()
    plan.launch "assume_replicated"(%x) -> () collective over <"mp", 2, 4> on "compute" : (memref<4xf32>) -> ()
    return
  }
}
