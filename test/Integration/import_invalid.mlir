// Each bad input is refused with one line that has the place, the expected value and the given one.

// RUN: split-file %s %t

// RUN: not moe-import %t/experts.json 2>&1 | FileCheck %s --check-prefix=EXPERTS
// EXPERTS: experts.json:4:3: error: 'num_experts': expected an integer from 1 to 65536 but got "eight"

// RUN: not moe-import %t/cut.json 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: cut.json:3:1: error: expected JSON:

// RUN: not moe-import %t/llama.json 2>&1 | FileCheck %s --check-prefix=LLAMA
// LLAMA: llama.json:1:2: error: 'architectures': expected a model with experts, or --whole-model for one without, but got ["LlamaForCausalLM"]

// RUN: not moe-import switch-large 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: 'switch-large': expected a file, a folder with a config.json or the name of one of the shared models, which are {{.*}}switch-base-8

// RUN: not moe-import switch-base-8 --batch=-3 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: 'batch': expected an integer from 1 to {{[0-9]+}} but got -3

// RUN: not moe-import switch-base-8 --max-load=2 2>&1 | FileCheck %s --check-prefix=LOAD
// LOAD: error: 'max-load': expected a dropless model but got the expert capacity 64

// RUN: not moe-import switch-base-8 --dtype=f8 2>&1 | FileCheck %s --check-prefix=DTYPE
// DTYPE: for the --dtype option: expected f32, f64, bf16 or f16 but got 'f8'

//--- experts.json
{
  "architectures": ["Qwen3MoeForCausalLM"],
  "hidden_size": 64, "moe_intermediate_size": 32,
  "num_experts": "eight"
}
//--- cut.json
{
  "architectures": ["Qwen3MoeForCausalLM"],
//--- llama.json
{"architectures": ["LlamaForCausalLM"]}
