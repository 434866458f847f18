package cpus

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The names of options.
const (
	fullCores       = "full-pcpus-only"
	acrossNodes     = "distribute-cpus-across-numa"
	bySocket        = "align-by-socket"
	acrossCores     = "distribute-cpus-across-cores"
	strictReserve   = "strict-cpu-reservation"
	byCacheIfItCan  = "prefer-align-cpus-by-uncorecache"
	alphaNotEnabled = "CPU Manager Policy Alpha-level Options not enabled, but option %q provided"
)

// Options fine-tune a policy.
type Options struct {
	// FullCores gives away whole cores only.
	FullCores bool
	// AcrossNodes takes as many CPUs from each NUMA node, where one is not enough.
	AcrossNodes bool
	// StrictReserve keeps the reserved CPUs out of the shared pool.
	StrictReserve bool
	// ByCache takes CPUs from as few uncore caches as possible.
	ByCache bool
}

// ParseOptions reads options by their names in the kubelet's configuration. Those of level alpha are refused, as without
// their feature gate.
func ParseOptions(options map[string]string) (Options, error) {
	var o Options
	fields := map[string]*bool{fullCores: &o.FullCores, acrossNodes: &o.AcrossNodes, strictReserve: &o.StrictReserve, byCacheIfItCan: &o.ByCache}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		field, known := fields[name]
		switch {
		case name == bySocket || name == acrossCores:
			return o, fmt.Errorf(alphaNotEnabled, name)
		case !known:
			return o, fmt.Errorf("unknown CPU Manager Policy option: %q", name)
		}
		value, err := strconv.ParseBool(options[name])
		if err != nil {
			return o, fmt.Errorf("bad value for option %q: %w", name, err)
		}
		*field = value
	}
	if o.ByCache && o.AcrossNodes {
		return o, fmt.Errorf("static policy options %s and %s can not be used at the same time", byCacheIfItCan, acrossNodes)
	}
	return o, nil
}
