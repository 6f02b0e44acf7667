// A whole model as a graph: what its arguments are, and what a block is made of.

// RUN: moe-import %S/models/mixtral.json --whole-model --batch=2 --seq=8 --layers=1 | moe-opt | FileCheck %s --check-prefix=MIXTRAL
// MIXTRAL-LABEL: func.func @model(
// MIXTRAL-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<16xi32> {moe.below = 40 : i64, moe.name = "tokens", moe.role = "input", moe.sequence = 8 : i64}
// MIXTRAL-SAME: %[[TABLE:[a-z0-9]+]]: tensor<40x24xf32> {moe.name = "embedding", moe.role = "parameter", moe.source = {tensors = ["model.embed_tokens.weight"]}}
// MIXTRAL-SAME: moe.name = "layer0.norm1.gamma"
// MIXTRAL-SAME: tensor<24x12xf32> {moe.name = "layer0.attention.k", moe.role = "parameter", moe.source = {tensors = ["model.layers.0.self_attn.k_proj.weight"], transpose}}
// MIXTRAL-SAME: moe.name = "layer0.w1", moe.role = "parameter", moe.source = {experts = 4 : i64, tensors = ["model.layers.0.block_sparse_moe.experts.{e}.w1.weight", "model.layers.0.block_sparse_moe.experts.{e}.w3.weight"], transpose}}
// MIXTRAL-SAME: -> (tensor<16x40xf32> {moe.name = "logits", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"})
// MIXTRAL: %[[X:.+]] = moe.embedding %[[TOKENS]], %[[TABLE]] {vocabulary}
// MIXTRAL: %[[N:.+]] = moe.norm %[[X]], %{{.+}} {eps = 1.000000e-05 : f64, kind = #moe<norm rms>}
// MIXTRAL: %[[Q:.+]] = moe.linear %[[N]], %{{.+}} {column = 6 : i64}
// MIXTRAL: %[[K:.+]] = moe.linear %[[N]], %{{.+}} {column = 6 : i64}
// MIXTRAL: %[[V:.+]] = moe.linear %[[N]], %{{.+}} {column = 6 : i64}
// MIXTRAL: %[[RQ:.+]] = moe.rotary %[[Q]] {base = 1.000000e+04 : f64, head_dim = 6 : i64, period = 8 : i64, rotary_dim = 6 : i64}
// MIXTRAL: %[[RK:.+]] = moe.rotary %[[K]]
// MIXTRAL: %[[A:.+]], %{{.+}} = moe.attention %[[RQ]], %[[RK]], %[[V]] {causal, heads = 4 : i64, k_heads = 2 : i64, k_length = 8 : i64, q_length = 8 : i64, {{.*}}window = 5 : i64}
// MIXTRAL: %[[O:.+]] = moe.linear %[[A]], %{{[a-z0-9]+}} :
// MIXTRAL: %[[SUM:.+]] = moe.add %[[X]], %[[O]]
// MIXTRAL: %[[N2:.+]] = moe.norm %[[SUM]]
// MIXTRAL: %[[Y:.+]], %[[AUX:.+]] = moe.layer "layer0" %[[N2]]
// MIXTRAL: %[[OUT:.+]] = moe.add %[[SUM]], %[[Y]]
// MIXTRAL: %[[N3:.+]] = moe.norm %[[OUT]]
// MIXTRAL: %[[LOGITS:.+]] = moe.linear %[[N3]], %{{.+}} {column = 1 : i64}
// MIXTRAL: return %[[LOGITS]], %[[AUX]]

// In training: labels, a step for dropout, a loss. BERT's norms stand after the sums; its head is the transposed embedding.
// RUN: moe-import %S/models/bert-moe.json --whole-model --loss --batch=2 --seq=8 | moe-opt | FileCheck %s --check-prefix=BERT
// BERT: %[[LABELS:[a-z0-9]+]]: tensor<16xi32> {moe.below = 40 : i64, moe.name = "labels", moe.role = "input"}
// BERT-SAME: %[[STEP:[a-z0-9]+]]: tensor<i32> {moe.name = "step", moe.role = "step"}
// BERT-SAME: %[[TABLE:[a-z0-9]+]]: tensor<40x24xf32> {moe.name = "embedding"
// BERT-SAME: moe.name = "head_bias"
// BERT-SAME: -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}, tensor<f32> {moe.name = "cross_entropy", moe.role = "metric"})
// BERT: moe.positions {period = 8 : i64}
// BERT: moe.positions {period = 1 : i64}
// BERT: %[[X:.+]] = moe.dropout %{{.+}}, %[[STEP]] {p = 1.000000e-01 : f64, seed = 0 : i64}
// BERT: moe.attention {{.*}} step(%[[STEP]]) {dropout = 1.000000e-01 : f64
// BERT: %[[SUM:.+]] = moe.add %[[X]]
// BERT: moe.norm %[[SUM]]
// BERT: moe.activation {{.*}} {kind = #moe<activation gelu>}
// BERT: moe.layer "layer1"
// BERT: %[[LOGITS:.+]] = moe.linear %{{.+}}, %[[TABLE]], %{{.+}} {column = 1 : i64, transpose_weights}
// BERT: %[[CE:.+]] = moe.cross_entropy %[[LOGITS]], %[[LABELS]]
// BERT: %[[BALANCE:.+]] = moe.scale %{{.+}} {factor = 1.000000e-02 : f64}
// BERT: %[[LOSS:.+]] = moe.add %[[CE]], %[[BALANCE]]
// BERT: return %[[LOSS]], %[[CE]]

// GPT-2's fused projection, and the locations that reports go by.
// RUN: moe-import %S/models/gpt2-moe.json --whole-model --seq=8 --mlir-print-debuginfo | FileCheck %s --check-prefix=GPT2
// GPT2: moe.name = "layer0.attention.k", moe.role = "parameter", moe.source = {begin = 24 : i64, of = 72 : i64, tensors = ["transformer.h.0.attn.c_attn.weight"]}}
// GPT2-DAG: loc("embedding"(
// GPT2-DAG: loc("layer0.attention"(
// GPT2-DAG: loc("layer0.ffn"(
// GPT2-DAG: loc("layer1"(
// GPT2-DAG: loc("head"(

// Encoder and decoder: blocks are numbered on, and each stack has one table of relative positions.
// RUN: moe-import %S/models/switch.json --whole-model --seq=8 --mlir-print-debuginfo | FileCheck %s --check-prefix=SWITCH
// SWITCH: moe.name = "decoder_tokens"
// SWITCH-SAME: moe.name = "layer2.cross.q", moe.role = "parameter", moe.source = {tensors = ["decoder.block.0.layer.1.EncDecAttention.q.weight"], transpose}}
// SWITCH: %[[ENCODER:.+]] = moe.relative_bias %{{.+}} {bidirectional, max_distance = 6 : i64}
// SWITCH: moe.attention {{.*}} bias(%[[ENCODER]]) {heads = 4 : i64
// SWITCH: moe.layer "layer1"
// SWITCH: %[[MEMORY:.+]] = moe.norm
// SWITCH: %[[DECODER:.+]] = moe.relative_bias %{{.+}} {max_distance = 6 : i64}
// SWITCH: moe.attention {{.*}} bias(%[[DECODER]]) {causal
// SWITCH: moe.linear %[[MEMORY]]
// SWITCH: moe.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} {heads
// SWITCH: moe.layer "layer3"
// SWITCH: moe.scale
// SWITCH: transpose_weights
// SWITCH: loc("layer2.cross"(

// DeepSeek's latent attention: two parameters of each joint projection, keys of own columns and of those that heads share, a
// scale with the square of 1 + 0.08 ln 4; the first block is dense.
// RUN: moe-import %S/models/deepseek-v3.json --whole-model --seq=8 --layers=2 | moe-opt | FileCheck %s --check-prefix=DEEPSEEK
// DEEPSEEK: %[[KV_A:[a-z0-9]+]]: tensor<24x10xf32> {moe.name = "layer0.attention.kv_a", moe.role = "parameter", moe.source = {begin = 0 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_a_proj_with_mqa.weight"], transpose}}
// DEEPSEEK-SAME: tensor<10x32xf32> {moe.name = "layer0.attention.k", moe.role = "parameter", moe.source = {begin = 0 : i64, blocks = 4 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_b_proj.weight"], transpose}}
// DEEPSEEK-SAME: tensor<10x24xf32> {moe.name = "layer0.attention.v", moe.role = "parameter", moe.source = {begin = 8 : i64, blocks = 4 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_b_proj.weight"], transpose}}
// DEEPSEEK-SAME: moe.name = "layer0.attention.k_shared", moe.role = "parameter", moe.source = {begin = 10 : i64, of = 14 : i64, {{[^}]*}}kv_a_proj_with_mqa.weight"], transpose}}
// DEEPSEEK-SAME: moe.name = "layer0.attention.k_shared_bias", moe.role = "parameter", moe.source = {begin = 10 : i64, of = 14 : i64, {{[^}]*}}kv_a_proj_with_mqa.bias"]}}
// DEEPSEEK-SAME: moe.name = "layer1.selection_bias", moe.role = "parameter", moe.source = {tensors = ["model.layers.1.mlp.gate.e_score_correction_bias"]}}
// DEEPSEEK: %[[QA:.+]] = moe.norm %{{.+}} {eps = 9.99{{[0-9]*}}E-7 : f64, kind = #moe<norm rms>} : (tensor<8x14xf32>
// DEEPSEEK: %[[Q:.+]] = moe.linear %[[QA]], %{{.+}} {column = 12 : i64}
// DEEPSEEK: moe.linear %{{.+}}, %[[KV_A]], %{{.+}} :
// DEEPSEEK: %[[C:.+]] = moe.norm %{{.+}} {eps = 9.99{{[0-9]*}}E-7 : f64
// DEEPSEEK: %[[K:.+]] = moe.linear %[[C]], %{{.+}} {column = 8 : i64}
// DEEPSEEK: %[[V:.+]] = moe.linear %[[C]], %{{.+}} {column = 6 : i64}
// DEEPSEEK: %[[SHARED:.+]] = moe.rotary %{{.+}} {{{.*}}factor = 4.000000e+00 : f64, head_dim = 4 : i64, interleaved, {{.*}}rotary_dim = 4 : i64
// DEEPSEEK: %[[KEYS:.+]] = moe.append_to_heads %[[K]], %[[SHARED]] : (tensor<8x32xf32>, tensor<8x4xf32>) -> tensor<8x48xf32>
// DEEPSEEK: %[[QUERIES:.+]] = moe.rotary %[[Q]] {{{.*}}begin = 8 : i64, {{.*}}head_dim = 12 : i64, interleaved
// DEEPSEEK: moe.attention %[[QUERIES]], %[[KEYS]], %[[V]] {causal, heads = 4 : i64, k_heads = 4 : i64, {{.*}}scale = 0.3562{{.*}} : f64} {{.*}} -> (tensor<8x24xf32>, tensor<8x4xf32>)
// DEEPSEEK: moe.activation {{.*}}swiglu
// DEEPSEEK: moe.layer "layer1" {{.*}}selection_bias({{.*}}shared(
