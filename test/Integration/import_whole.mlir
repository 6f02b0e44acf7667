// A whole model as a graph: its arguments, and the ops of a block.

// RUN: moe-import %S/models/mixtral.json --whole-model --batch=2 --seq=8 --layers=1 | moe-opt | FileCheck %s --check-prefix=MIXTRAL
// MIXTRAL-LABEL: func.func @model(
// MIXTRAL-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<16xi32> {moe.below = 40 : i64, moe.name = "tokens", moe.role = "input", moe.sequence = 8 : i64}
// MIXTRAL-SAME: %[[TABLE:[a-z0-9]+]]: tensor<40x24xf32> {moe.name = "embedding", moe.role = "parameter", moe.source = {tensors = ["model.embed_tokens.weight"]}}
// MIXTRAL-SAME: moe.name = "layer0.norm1.gamma"
// MIXTRAL-SAME: tensor<24x12xf32> {moe.name = "layer0.attention.k", moe.role = "parameter", moe.source = {tensors = ["model.layers.0.self_attn.k_proj.weight"], transpose}}
// MIXTRAL-SAME: moe.name = "layer0.w1", moe.role = "parameter", moe.source = {experts = 4 : i64, tensors = ["model.layers.0.block_sparse_moe.experts.{e}.w1.weight", "model.layers.0.block_sparse_moe.experts.{e}.w3.weight"], transpose}}
// MIXTRAL-SAME: -> (tensor<16x40xf32> {moe.name = "logits", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"})
// MIXTRAL: %[[X:.+]] = moe.embedding %[[TOKENS]], %[[TABLE]] {padding = 3 : i64, vocabulary}
// MIXTRAL: %[[N:.+]] = moe.norm %[[X]], %{{.+}} {eps = 1.000000e-05 : f64, kind = #moe<norm rms>}
// MIXTRAL: %[[Q:.+]] = moe.linear %[[N]], %{{.+}} {column = 6 : i64}
// MIXTRAL: %[[K:.+]] = moe.linear %[[N]], %{{.+}} {column = 6 : i64}
// MIXTRAL: %[[V:.+]] = moe.linear %[[N]], %{{.+}} {column = 6 : i64}
// MIXTRAL: %[[RQ:.+]] = moe.rotary %[[Q]] {base = 1.000000e+04 : f64, head_dim = 6 : i64, period = 8 : i64, rotary_dim = 6 : i64}
// MIXTRAL: %[[RK:.+]] = moe.rotary %[[K]]
// MIXTRAL: %[[A:.+]], %{{.+}} = moe.attention %[[RQ]], %[[RK]], %[[V]] {causal, heads = 4 : i64, k_heads = 2 : i64, k_length = 8 : i64, q_length = 8 : i64, scale = 0.40824829046386307 : f64, window = 5 : i64}
// MIXTRAL: %[[O:.+]] = moe.linear %[[A]], %{{[a-z0-9]+}} :
// MIXTRAL: %[[SUM:.+]] = moe.add %[[X]], %[[O]]
// MIXTRAL: %[[N2:.+]] = moe.norm %[[SUM]]
// MIXTRAL: %[[Y:.+]], %[[AUX:.+]] = moe.layer "layer0" %[[N2]]
// MIXTRAL: %[[OUT:.+]] = moe.add %[[SUM]], %[[Y]]
// MIXTRAL: %[[N3:.+]] = moe.norm %[[OUT]]
// MIXTRAL: %[[LOGITS:.+]] = moe.linear %[[N3]], %{{.+}} {column = 1 : i64}
// MIXTRAL: return %[[LOGITS]], %[[AUX]]

// In training there are labels, a step for dropout, and a loss. BERT's norms follow the sums, and its head is the transposed embedding.
// RUN: moe-import %S/models/bert-moe.json --whole-model --loss --batch=2 --seq=8 | moe-opt | FileCheck %s --check-prefix=BERT
// BERT: %[[LABELS:[a-z0-9]+]]: tensor<16xi32> {moe.below = 40 : i64, moe.name = "labels", moe.role = "input"}
// BERT-SAME: %[[STEP:[a-z0-9]+]]: tensor<i32> {moe.name = "step", moe.role = "step"}
// BERT-SAME: %[[TABLE:[a-z0-9]+]]: tensor<40x24xf32> {moe.name = "embedding"
// BERT-SAME: moe.name = "head_bias"
// BERT-SAME: -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}, tensor<f32> {moe.name = "cross_entropy", moe.role = "metric"})
// BERT: moe.positions {period = 8 : i64}
// BERT: moe.positions {period = 1 : i64}
// BERT: %[[X:.+]] = moe.dropout %{{.+}}, %[[STEP]] {p = 1.000000e-01 : f64, seed = 0 : i64}
// BERT: moe.attention {{.*}} step(%[[STEP]]) {causal, dropout = 1.000000e-01 : f64
// BERT: %[[SUM:.+]] = moe.add %[[X]]
// BERT: moe.norm %[[SUM]]
// BERT: moe.activation {{.*}} {kind = #moe<activation gelu>}
// BERT: moe.layer "layer1"
// BERT: %[[LOGITS:.+]] = moe.linear %{{.+}}, %[[TABLE]], %{{.+}} {column = 1 : i64, transpose_weights}
// BERT: %[[CE:.+]] = moe.cross_entropy %[[LOGITS]], %[[LABELS]]
// BERT: %[[BALANCE:.+]] = moe.scale %{{.+}} {factor = 1.000000e-02 : f64}
// BERT: %[[LOSS:.+]] = moe.add %[[CE]], %[[BALANCE]]
// BERT: return %[[LOSS]], %[[CE]]

// In transformers' families the loss of routers is added if the configuration says so. It is one of the means over all
// layers. The embedding does not train the row of the padding, and biases of experts do not decay.
// RUN: moe-import %S/models/mixtral.json --whole-model --loss --seq=8 | moe-opt | FileCheck %s --check-prefix=ROUTED
// ROUTED: moe.embedding {{.*}} {padding = 3 : i64, vocabulary}
// ROUTED: %[[X:.+]] = moe.dropout {{.*}} {jitter, p = 1.000000e-01 : f64, seed = 0 : i64}
// ROUTED: moe.layer "layer0" %[[X]] gate(%[[GATE:[a-z0-9]+]])
// ROUTED: %[[LOGITS:.+]] = moe.linear %[[X]], %[[GATE]] : (tensor<8x24xf32>, tensor<24x4xf32>) -> tensor<8x4xf32>
// ROUTED: %[[L0:.+]], %[[S0:.+]], %[[Z0:.+]] = moe.router_means %[[LOGITS]] {top_k = 2 : i64}
// ROUTED: %[[L1:.+]], %[[S1:.+]], %[[Z1:.+]] = moe.router_means
// ROUTED-DAG: %[[L:.+]] = moe.add %[[L0]], %[[L1]]
// ROUTED-DAG: %[[S:.+]] = moe.add %[[S0]], %[[S1]]
// ROUTED-DAG: %[[Z:.+]] = moe.add %[[Z0]], %[[Z1]]
// ROUTED: %[[CE:.+]] = moe.cross_entropy
// ROUTED: %[[LOSS:.+]] = moe.router_loss %[[L]], %[[S]], %[[Z]] {balance = 5.000000e-03 : f64, square = 0.000000e+00 : f64}
// ROUTED: moe.add %[[CE]], %[[LOSS]]
// RUN: moe-import %S/models/olmoe.json --whole-model --loss --seq=8 | moe-opt | FileCheck %s --check-prefix=UNROUTED
// UNROUTED: padding = 1 : i64
// UNROUTED-NOT: moe.router
// UNROUTED: %[[CE:.+]] = moe.cross_entropy
// UNROUTED-NEXT: return %[[CE]], %[[CE]]

// OLMoE's queries and keys are clipped after their norms, before rotary positions.
// RUN: moe-import %S/models/olmoe.json --whole-model --seq=8 --layers=1 | moe-opt | FileCheck %s --check-prefix=CLIP
// CLIP: %[[Q:.+]] = moe.linear
// CLIP-NEXT: %[[K:.+]] = moe.linear
// CLIP-NEXT: %[[V:.+]] = moe.linear
// CLIP-NEXT: %[[V1:.+]] = moe.clamp %[[V]] {limit = 1.000000e+00 : f64}
// CLIP-NEXT: %[[Q1:.+]] = moe.norm %[[Q]]
// CLIP-NEXT: %[[Q2:.+]] = moe.clamp %[[Q1]]
// CLIP-NEXT: %[[Q3:.+]] = moe.rotary %[[Q2]]
// CLIP-NEXT: %[[K1:.+]] = moe.norm %[[K]]
// CLIP-NEXT: %[[K2:.+]] = moe.clamp %[[K1]]
// CLIP-NEXT: %[[K3:.+]] = moe.rotary %[[K2]]
// CLIP-NEXT: moe.attention %[[Q3]], %[[K3]], %[[V1]]

// RUN: moe-import %S/models/gpt-oss.json --whole-model --seq=8 --layers=1 | moe-opt | FileCheck %s --check-prefix=GPTOSS
// GPTOSS: moe.name = "layer0.b1", moe.no_decay, moe.role = "parameter"
// GPTOSS: moe.layer {{.*}} {activation = #moe<activation swiglu_clamped>, activation_alpha = 1.250000e+00 : f64, activation_limit = 5.000000e+00 : f64

// GPT-2's fused projection, and the locations in reports.
// RUN: moe-import %S/models/gpt2-moe.json --whole-model --seq=8 --mlir-print-debuginfo | FileCheck %s --check-prefix=GPT2
// GPT2: moe.name = "layer0.attention.k", moe.role = "parameter", moe.source = {begin = 24 : i64, of = 72 : i64, prefix = "transformer.", tensors = ["transformer.h.0.attn.c_attn.weight"]}}
// GPT2-DAG: loc("embedding"(
// GPT2-DAG: loc("layer0.attention"(
// GPT2-DAG: loc("layer0.ffn"(
// GPT2-DAG: loc("layer1"(
// GPT2-DAG: loc("head"(
// Places are those of the keys that give the sizes: n_head, n_inner, vocab_size, num_experts.
// GPT2-DAG: loc("{{.*}}gpt2-moe.json":7:3)
// GPT2-DAG: loc("{{.*}}gpt2-moe.json":10:3)
// GPT2-DAG: loc("{{.*}}gpt2-moe.json":11:3)
// GPT2-DAG: loc("{{.*}}gpt2-moe.json":18:3)

// In an encoder and a decoder, blocks are numbered through, and each stack has one table of relative positions.
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

// DeepSeek's latent attention: two parameters for each joint projection, keys with own and shared columns, a
// scale with the square of 1 + 0.08 ln 4. The first block is dense.
// RUN: moe-import %S/models/deepseek-v3.json --whole-model --seq=8 --layers=2 | moe-opt | FileCheck %s --check-prefix=DEEPSEEK
// DEEPSEEK: %[[KV_A:[a-z0-9]+]]: tensor<24x10xf32> {moe.name = "layer0.attention.kv_a", moe.role = "parameter", moe.source = {begin = 0 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_a_proj_with_mqa.weight"], transpose}}
// DEEPSEEK-SAME: tensor<10x32xf32> {moe.name = "layer0.attention.k", moe.role = "parameter", moe.source = {begin = 0 : i64, blocks = 4 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_b_proj.weight"], transpose}}
// DEEPSEEK-SAME: tensor<10x24xf32> {moe.name = "layer0.attention.v", moe.role = "parameter", moe.source = {begin = 8 : i64, blocks = 4 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_b_proj.weight"], transpose}}
// DEEPSEEK-SAME: moe.name = "layer0.attention.k_shared", moe.role = "parameter", moe.source = {begin = 10 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_a_proj_with_mqa.weight"], transpose}}
// DEEPSEEK-SAME: moe.name = "layer0.attention.k_shared_bias", moe.role = "parameter", moe.source = {begin = 10 : i64, of = 14 : i64, tensors = ["model.layers.0.self_attn.kv_a_proj_with_mqa.bias"]}}
// DEEPSEEK-SAME: moe.name = "layer1.selection_bias", moe.role = "parameter", moe.source = {tensors = ["model.layers.1.mlp.gate.e_score_correction_bias"]}}
// DEEPSEEK: %[[QA:.+]] = moe.norm %{{.+}} {eps = 9.9999999999999995E-7 : f64, kind = #moe<norm rms>} : (tensor<8x14xf32>
// DEEPSEEK: %[[Q:.+]] = moe.linear %[[QA]], %{{.+}} {column = 12 : i64}
// DEEPSEEK: moe.linear %{{.+}}, %[[KV_A]], %{{.+}} :
// DEEPSEEK: %[[C:.+]] = moe.norm %{{.+}} {eps = 9.9999999999999995E-7 : f64
// DEEPSEEK: %[[K:.+]] = moe.linear %[[C]], %{{.+}} {column = 8 : i64}
// DEEPSEEK: %[[V:.+]] = moe.linear %[[C]], %{{.+}} {column = 6 : i64}
// DEEPSEEK: %[[SHARED:.+]] = moe.rotary %{{.+}} {base = 1.000000e+04 : f64, factor = 4.000000e+00 : f64, head_dim = 4 : i64, interleaved, period = 8 : i64, rotary_dim = 4 : i64, scale = 1.0249579607969668 : f64}
// DEEPSEEK: %[[KEYS:.+]] = moe.append_to_heads %[[K]], %[[SHARED]] : (tensor<8x32xf32>, tensor<8x4xf32>) -> tensor<8x48xf32>
// DEEPSEEK: %[[QUERIES:.+]] = moe.rotary %[[Q]] {base = 1.000000e+04 : f64, begin = 8 : i64, factor = 4.000000e+00 : f64, head_dim = 12 : i64, interleaved, period = 8 : i64, rotary_dim = 4 : i64, scale = 1.0249579607969668 : f64}
// DEEPSEEK: moe.attention %[[QUERIES]], %[[KEYS]], %[[V]] {causal, heads = 4 : i64, k_heads = 4 : i64, k_length = 8 : i64, q_length = 8 : i64, scale = 0.35625591626486192 : f64} : (tensor<8x48xf32>, tensor<8x48xf32>, tensor<8x24xf32>) -> (tensor<8x24xf32>, tensor<8x4xf32>)
// DEEPSEEK: moe.activation {{.*}} {kind = #moe<activation swiglu>}
// DEEPSEEK: moe.layer "layer1" {{.*}}selection_bias({{.*}}shared(

// Shared models without remarks. Maverick's blocks are dense and MoE in turn.
// RUN: moe-import llama-4-maverick --whole-model --seq=8 --layers=4 --strict | FileCheck %s --check-prefix=MAVERICK
// MAVERICK: moe.activation {{.*}} {kind = #moe<activation swiglu>} : (tensor<8x32768x
// MAVERICK: moe.layer "layer1"
// MAVERICK: moe.activation {{.*}} {kind = #moe<activation swiglu>} : (tensor<8x32768x
// MAVERICK: moe.rotary {{.*}} temperature
// MAVERICK: moe.layer "layer3"
// RUN: moe-import qwen3-235b-a22b --whole-model --seq=8 --strict -o %t.235
// RUN: moe-import mixtral-8x22b --whole-model --seq=8 --strict -o %t.8x22
// RUN: moe-import kimi-k2 --whole-model --seq=8 --strict -o %t.k2
// RUN: moe-import glm-4.5 --whole-model --seq=8 --strict -o %t.glm
