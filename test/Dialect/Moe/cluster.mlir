// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --moe-set-cluster="rates='#moe.cluster<node_ranks = 2>'" | FileCheck %s --check-prefix=SET
// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<node_ranks = 2, expert_start = 0.1>'})" \
// RUN:   --dump-pass-pipeline -o %t 2> %t.pipeline
// RUN: FileCheck %s --check-prefix=PIPELINE < %t.pipeline

// Rates that have their default are not printed; the others read back as they are.
// CHECK: module attributes {moe.cluster = #moe.cluster<node_ranks = 4, flops = 0.0, expert_bytes = 1.0000000000000002e11, overlapped_beta = 2.5e-11>} {
// SET: module attributes {moe.cluster = #moe.cluster<node_ranks = 2>} {
// PIPELINE: moe-set-cluster{rates={#moe.cluster<node_ranks = 2, expert_start = 0.1>}}
module attributes {moe.cluster = #moe.cluster<expert_bytes = 1.0000000000000002e11, overlapped_beta = 2.5e-11, memory_bytes = 3.0e12, flops = 0.0, node_ranks = 4>} {
}
