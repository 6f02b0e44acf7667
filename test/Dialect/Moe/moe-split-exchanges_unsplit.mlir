// RUN: moe-opt %s --moe-verify-spmd > %t.before
// RUN: moe-opt %s --moe-split-exchanges -verify-diagnostics | diff %t.before -

// Exchanges that cannot have phases do not change. A remark says so if a program has no others.

module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 2, mp = 2, ep = 2, esp = 2>} {
  // Two users: both would need all phases.
  // expected-remark @+1 {{moe-split-exchanges: no all_to_all of this program can be made in phases: that needs ops that work on each block alone, and after them an exchange inside the blocks}}
  func.func @two_users(%x: tensor<2x16x8xf32> {moe.layout = #moe.layout<[world], [], []>})
      -> (tensor<4x8x8xf32> {moe.layout = #moe.layout<[dp], [], []>}, tensor<8x4x8xf32> {moe.layout = #moe.layout<[world], [], []>}) {
    %0 = moe.all_to_all %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
    %1 = moe.local_reduce %0 {blocks = 2 : i64} : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
    %2 = moe.all_gather %1 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
    return %2, %0 : tensor<4x8x8xf32>, tensor<8x4x8xf32>
  }

  // The sum has two users.
  // expected-remark @+1 {{no all_to_all of this program can be made in phases}}
  func.func @two_users_of_the_sum(%x: tensor<2x16x8xf32> {moe.layout = #moe.layout<[world], [], []>})
      -> (tensor<4x8x8xf32> {moe.layout = #moe.layout<[dp], [], []>}, tensor<4x4x8xf32> {moe.layout = #moe.layout<[world], [], []>}) {
    %0 = moe.all_to_all %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
    %1 = moe.local_reduce %0 {blocks = 2 : i64} : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
    %2 = moe.all_gather %1 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<4x4x8xf32>) -> tensor<4x8x8xf32>
    return %2, %1 : tensor<4x8x8xf32>, tensor<4x4x8xf32>
  }

  // The parts that arrive are not one piece of the result each, as they lie along dimension 1.
  // expected-remark @+1 {{no all_to_all of this program can be made in phases}}
  func.func @there(%x: tensor<8x4x8xf32> {moe.layout = #moe.layout<[world], [], []>}) -> (tensor<2x16x16xf32> {moe.layout = #moe.layout<[dp], [], []>}) {
    %0 = moe.all_to_all %x over <"world", 4, 1> {split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x4x8xf32>) -> tensor<2x16x8xf32>
    %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 2 : i64} : (tensor<2x16x8xf32>) -> tensor<2x16x16xf32>
    return %1 : tensor<2x16x16xf32>
  }

  // Split and put together along one dimension: a part of the result is of parts of the input that lie apart.
  // expected-remark @+1 {{no all_to_all of this program can be made in phases}}
  func.func @one_dim(%x: tensor<8x4x8xf32> {moe.layout = #moe.layout<[world], [], []>}) -> (tensor<8x8x8xf32> {moe.layout = #moe.layout<[dp], [], []>}) {
    %0 = moe.all_to_all %x over <"world", 4, 1> {split_dim = 0 : i64, concat_dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<8x4x8xf32>
    %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 1 : i64} : (tensor<8x4x8xf32>) -> tensor<8x8x8xf32>
    return %1 : tensor<8x8x8xf32>
  }

  // Gathered along the phases' own dimension, each phase would have to wait for all.
  // expected-remark @+1 {{no all_to_all of this program can be made in phases}}
  func.func @rows(%x: tensor<2x16x8xf32> {moe.layout = #moe.layout<[world], [], []>}) -> (tensor<16x4x8xf32> {moe.layout = #moe.layout<[dp], [], []>}) {
    %0 = moe.all_to_all %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
    %1 = moe.all_gather %0 over <"mp", 2, 1> {dim = 0 : i64} : (tensor<8x4x8xf32>) -> tensor<16x4x8xf32>
    return %1 : tensor<16x4x8xf32>
  }

  // There is nothing to overlap with: no exchange follows.
  // expected-remark @+1 {{no all_to_all of this program can be made in phases}}
  func.func @no_exchange(%x: tensor<2x16x8xf32> {moe.layout = #moe.layout<[world], [], []>}) -> (tensor<4x4x8xf32> {moe.layout = #moe.layout<[world], [], []>}) {
    %0 = moe.all_to_all %x over <"world", 4, 1> {split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<2x16x8xf32>) -> tensor<8x4x8xf32>
    %1 = moe.local_reduce %0 {blocks = 2 : i64} : (tensor<8x4x8xf32>) -> tensor<4x4x8xf32>
    return %1 : tensor<4x4x8xf32>
  }
}
