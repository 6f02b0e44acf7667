// Each bad input ends with exit status 2 and one line that names the place, what was expected and what was there.

// RUN: split-file %s %t

// RUN: (moe-import %t/experts.json; echo status $?) 2>&1 | FileCheck %s --check-prefix=EXPERTS
// EXPERTS: experts.json:4:3: error: 'num_experts': expected an integer from 1 to 65536 but got "eight"
// EXPERTS-NEXT: status 2

// RUN: (moe-import %t/cut.json; echo status $?) 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: cut.json:3:1: error: expected JSON:
// CUT-NEXT: status 2

// RUN: (moe-import %t/llama.json; echo status $?) 2>&1 | FileCheck %s --check-prefix=LLAMA
// LLAMA: llama.json:1:2: error: 'architectures': expected one of {{.*}}MixtralForCausalLM, {{.*}} but got ["LlamaForCausalLM"]
// LLAMA-NEXT: status 2

// RUN: (moe-import switch-large; echo status $?) 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: 'switch-large': expected a file or the name of one of the shared models, which are {{.*}}switch-base-8
// NAME-NEXT: status 2

// RUN: (moe-import switch-base-8 --batch=-3; echo status $?) 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: 'batch': expected an integer from 1 to {{[0-9]+}} but got -3
// BATCH-NEXT: status 2

// RUN: (moe-import switch-base-8 --max-load=2; echo status $?) 2>&1 | FileCheck %s --check-prefix=LOAD
// LOAD: error: 'max-load': expected a dropless model but got the capacity factor 1.0
// LOAD-NEXT: status 2

// RUN: (moe-import switch-base-8 --dtype=f16; echo status $?) 2>&1 | FileCheck %s --check-prefix=DTYPE
// DTYPE: Cannot find option named 'f16'
// DTYPE-NEXT: status 2

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
