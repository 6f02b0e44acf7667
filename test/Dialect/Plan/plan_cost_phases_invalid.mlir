// RUN: moe-opt %s -split-input-file -verify-diagnostics

// A phase that there is not.
// expected-error @+1 {{expected phase = [number, phases] with 0 <= number < phases but got [4, 4]}}
func.func private @phase_too_high() attributes {cost = #plan.cost<network, collective = all_to_all, phase = [4, 4]>}

// -----

// A phase before the first.
// expected-error @+1 {{expected phase = [number, phases] with 0 <= number < phases but got [-1, 4]}}
func.func private @phase_negative() attributes {cost = #plan.cost<network, collective = all_to_all, phase = [-1, 4]>}

// -----

// No phases.
// expected-error @+1 {{expected phase = [number, phases] with 0 <= number < phases but got [0, 0]}}
func.func private @no_phases() attributes {cost = #plan.cost<network, collective = all_to_all, phase = [0, 0]>}

// -----

// A phase alone.
// expected-error @+1 {{expected phase = [number, phases]}}
func.func private @phase_alone() attributes {cost = #plan.cost<network, collective = all_to_all, phase = [1]>}

// -----

// Phases of another collective.
// expected-error @+1 {{expected phases of an all_to_all, and of nothing else}}
func.func private @phases_of_gather() attributes {cost = #plan.cost<network, collective = all_gather, phase = [0, 2]>}

// -----

// No copy.
// expected-error @+1 {{expected copies to be at least 1 but got 0}}
func.func private @no_copies() attributes {cost = #plan.cost<network, collective = all_to_all, copies = 0>}

// -----

// Copies of another collective.
// expected-error @+1 {{expected copies of an all_to_all only but got 2}}
func.func private @copies_of_gather() attributes {cost = #plan.cost<network, collective = all_gather, copies = 2>}
