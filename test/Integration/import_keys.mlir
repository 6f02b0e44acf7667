// One warning lists the unknown keys of a configuration. With --strict they are refused.

// RUN: split-file %s %t

// RUN: moe-import %t/other.json --layers=1 2>&1 | FileCheck %s --check-prefix=WARNING
// RUN: moe-import %t/other.json --whole-model --seq=8 2>&1 | FileCheck %s --check-prefix=WARNING
// WARNING-COUNT-1: other.json:3:3: warning: 'logit_scale', 'rope_scaling.mscale' (4:44): expected keys that MoePlan knows of MixtralForCausalLM; the graph does not depend on them; --strict makes this an error
// WARNING-NOT: warning
// WARNING: func.func @model

// RUN: not moe-import %t/other.json --strict 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: not moe-compile %t/other.json --strict --parallel=dp=1 -o %t/plan.so 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: not moe-sim %t/other.json --strict --parallel=dp=1 2>&1 | FileCheck %s --check-prefix=STRICT
// STRICT: other.json:3:3: error: 'logit_scale', 'rope_scaling.mscale' (4:44): expected keys that MoePlan knows of MixtralForCausalLM; the graph does not depend on them

// An error of the whole model is a warning if only its layers are imported, but other keys cannot be checked then.
// RUN: moe-import %t/clip.json 2>&1 | FileCheck %s --check-prefix=CLIP
// CLIP: clip.json:2:3: warning: 'clip_qkv': expected a number greater than 0 but got -8, for a whole model; so other keys were not checked; --strict makes this an error

// Published configurations have no unknown keys.
// RUN: moe-import mixtral-8x7b --strict --seq=8 2>&1 | FileCheck %s --check-prefix=PUBLISHED
// RUN: moe-import deepseek-v3 --strict --seq=8 2>&1 | FileCheck %s --check-prefix=PUBLISHED
// PUBLISHED-NOT: warning

// Keys that transformers ignores are named if their values say something else than it computes.
// RUN: moe-import %t/hunyuan.json 2>&1 | FileCheck %s --check-prefix=HUNYUAN
// HUNYUAN: hunyuan.json:4:3: warning: 'num_shared_expert', 'norm_topk_prob' (4:32), 'use_qk_norm' (4:57): expected keys that MoePlan knows of HunYuanMoEV1ForCausalLM; the graph does not depend on them
// RUN: moe-import %t/gpt-oss.json 2>&1 | FileCheck %s --check-prefix=GPT-OSS
// GPT-OSS: gpt-oss.json:3:3: warning: 'experts_per_token': expected a key that MoePlan knows of GptOssForCausalLM; the graph does not depend on it

// RUN: not moe-import %t/headless.json 2>&1 | FileCheck %s --check-prefix=HEADLESS
// HEADLESS: headless.json:1:2: error: 'architectures': expected "MixtralForCausalLM", the same model with the head that computes logits, but got ["MixtralModel"]

//--- other.json
{
  "architectures": ["MixtralForCausalLM"], "num_hidden_layers": 1, "transformers_version": "5.0",
  "logit_scale": 2, "attention_gain": null,
  "rope_scaling": {"rope_type": "default", "mscale": 1}
}
//--- clip.json
{"architectures": ["OlmoeForCausalLM"],
  "clip_qkv": -8
}
//--- hunyuan.json
{
  "architectures": ["HunYuanMoEV1ForCausalLM"], "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "num_experts": 4,
  "intermediate_size": 32, "moe_topk": [2, 2], "moe_intermediate_size": [32, 32], "routed_scaling_factor": 1.0, "use_mixed_mlp_moe": true,
  "num_shared_expert": [1, 2], "norm_topk_prob": false, "use_qk_norm": false
}
//--- gpt-oss.json
{
  "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 1, "num_experts_per_tok": 4,
  "experts_per_token": 2
}
//--- headless.json
{"architectures": ["MixtralModel"]}
