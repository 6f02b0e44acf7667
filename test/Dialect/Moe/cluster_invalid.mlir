// RUN: moe-opt %s -split-input-file -verify-diagnostics
// RUN: not moe-opt %s --moe-set-cluster="rates='#moe.group<\"ep\", 4, 1>'" -split-input-file 2>&1 | FileCheck %s
// CHECK: error: expected a #moe.cluster in the option rates but got '#moe.group<"ep", 4, 1>'

module {
}

// -----

// expected-error @+1 {{expected node_ranks of at least 1 but got 0}}
module attributes {moe.cluster = #moe.cluster<node_ranks = 0>} {
}

// -----

// expected-error @+1 {{expected link_bytes of at least 0 but got -1}}
module attributes {moe.cluster = #moe.cluster<flops = 1.0, link_bytes = -1.0>} {
}

// -----

// expected-error @+1 {{expected a rate of a cluster, one of node_ranks, flops, memory_bytes, inside_bytes, outside_bytes, expert_flops, expert_bytes, expert_start, broadcast_bytes, link_bytes, node_link_bytes, all_to_all_alpha, all_to_all_beta, all_gather_alpha, all_gather_beta, overlapped_alpha, overlapped_beta, but got 'bandwidth'}}
module attributes {moe.cluster = #moe.cluster<bandwidth = 1.0>} {
}

// -----

// expected-error @+1 {{expected each rate of a cluster once but got 'flops' again}}
module attributes {moe.cluster = #moe.cluster<flops = 1.0, flops = 2.0>} {
}

// -----

// expected-error @+1 {{expected 'moe.cluster' to be a #moe.cluster on a module but got 4}}
module attributes {moe.cluster = 4} {
}
