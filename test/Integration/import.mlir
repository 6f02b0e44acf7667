// moe-opt reads the output of moe-import. One family has the capacity form, one every routing option, one biases.

// RUN: moe-import switch-base-8 --batch=2 --seq=16 | moe-opt | FileCheck %s --check-prefix=SWITCH
// SWITCH-LABEL: func.func @model(
// SWITCH-SAME: %[[X:[a-z0-9]+]]: tensor<32x768xf32> {moe.name = "x", moe.role = "input"}
// SWITCH-SAME: %[[GATE:[a-z0-9]+]]: tensor<768x8xf32> {moe.name = "layer0.gate", moe.role = "parameter"}
// SWITCH-SAME: %[[W1:[a-z0-9]+]]: tensor<8x768x3072xf32> {moe.name = "layer0.w1", moe.role = "parameter"}
// SWITCH-SAME: %[[W2:[a-z0-9]+]]: tensor<8x3072x768xf32> {moe.name = "layer0.w2", moe.role = "parameter"})
// SWITCH-SAME: -> (tensor<32x768xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"})
// SWITCH: %[[Y:.+]], %[[AUX:.+]] = moe.layer "layer0" %[[X]] gate(%[[GATE]]) experts(%[[W1]], %[[W2]])
// SWITCH-SAME: {activation = #moe<activation relu>, expert_capacity = 64 : i64, groups = 2 : i64, top_k = 1 : i64}
// SWITCH: %[[SUM:.+]] = moe.add %[[X]], %[[Y]]
// SWITCH: return %[[SUM]], %[[AUX]]

// RUN: moe-import deepseek-v3 --layers=2 --dtype=bf16 --max-load=2 | moe-opt | FileCheck %s --check-prefix=DEEPSEEK
// DEEPSEEK: tensor<256xf32> {moe.name = "layer0.selection_bias", moe.role = "parameter"}, {{.*}}: tensor<256x7168x4096xbf16>
// DEEPSEEK: moe.layer "layer0" {{[^{]*}} selection_bias(%{{[^{]*}}) experts(%{{[^{]*}}) shared(%{{[^{]*}})
// DEEPSEEK-SAME: expert_groups = 8 : i64, group_score = #moe<group_score top2>, max_load = 2.000000e+00 : f64, renormalize, routing_scale = 2.500000e+00 : f64, score = #moe<score sigmoid>, top_groups = 4 : i64, top_k = 8 : i64
// DEEPSEEK: moe.layer "layer1"
// DEEPSEEK: moe.add {{.*}} : tensor<f32>

// RUN: moe-import gpt-oss-20b --dtype=f64 --capacity-factor=1.25 | moe-opt | FileCheck %s --check-prefix=OSS
// OSS: tensor<32xf64> {moe.name = "layer0.gate_bias", moe.role = "parameter"}
// OSS-SAME: tensor<32x5760xf64> {moe.name = "layer0.b1", moe.no_decay, moe.role = "parameter"}, {{.*}}: tensor<32x2880xf64> {moe.name = "layer0.b2", moe.no_decay, moe.role = "parameter"}
// OSS: activation = #moe<activation swiglu_clamped>, capacity_factor = 1.250000e+00 : f64, renormalize

// A dropless import of a capacity model, from standard input.
// RUN: moe-import - --dropless --seq=4 < %S/../../share/models/switch-base-8.json | moe-opt | FileCheck %s --check-prefix=DROPLESS
// DROPLESS-NOT: {{capacity_factor|expert_capacity}}
