package main

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
)

// serviceFlags are about the IPs and ports of services, and the versions of the API.
type serviceFlags struct {
	networks, ports string
	runtime         []string
}

func (s *serviceFlags) define(f *pflag.FlagSet) {
	f.StringVar(&s.networks, "service-cluster-ip-range", "10.0.0.0/24", "the networks of services' IPs, of one family or of both")
	f.StringVar(&s.ports, "service-node-port-range", "30000-32767", "the node ports of services")
	f.StringSliceVar(&s.runtime, "runtime-config", nil, "GROUP/VERSION=true tests that it is served, and tells if not; nothing is turned off")
}

func (s *serviceFlags) apply(o *cluster.Options) error {
	for text := range strings.SplitSeq(s.networks, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%w: --service-cluster-ip-range: %w", errUsage, err)
		}
		o.Services.Networks = append(o.Services.Networks, network.Masked())
	}
	var err error
	if o.Services.NodePorts, err = allocation.ParsePortRange(s.ports); err != nil {
		return fmt.Errorf("%w: --service-node-port-range: %w", errUsage, err)
	}
	return nil
}

// sayUnserved tells which versions were asked for and are not served.
func (s *serviceFlags) sayUnserved(kinds []*registry.Kind, tell func(format string, args ...any)) {
	served := map[string]bool{"api/v1": true, "api/all": true, "api/ga": true, "api/beta": true, "api/alpha": true}
	for _, k := range kinds {
		for _, version := range k.Served() {
			served[version.GroupVersion.String()] = true
			served[version.GroupVersion.String()+"/"+version.Plural] = true
		}
	}
	for _, entry := range s.runtime {
		name, value, _ := strings.Cut(entry, "=")
		if value == "false" {
			tell("--runtime-config: %s has no effect: nothing is turned off", entry)
		} else if !served[name] {
			tell("--runtime-config: %s is not served", name)
		}
	}
}

// ignored are flags of the upstream program that suites often pass and that change nothing here, but for one feature gate.
type ignored struct {
	gates []string
}

func (i *ignored) define(f *pflag.FlagSet) {
	f.StringSliceVar(&i.gates, "feature-gates", nil, "CBORServingAndStorage=true lets clients speak CBOR; other features are as by default")
	f.Bool("logtostderr", true, "accepted, without effect")
}

// say tells what has no effect.
func (i *ignored) say(tell func(format string, args ...any)) {
	for _, gate := range i.gates {
		if _, known := cborOf(gate); !known {
			tell("--feature-gates: %s has no effect", gate)
		}
	}
}

// cbor reports whether clients may speak CBOR: the only feature gate that has an effect.
func (i *ignored) cbor() bool {
	on := false
	for _, gate := range i.gates {
		if value, ok := cborOf(gate); ok {
			on = value
		}
	}
	return on
}

func cborOf(gate string) (on, ok bool) {
	name, value, _ := strings.Cut(gate, "=")
	on, err := strconv.ParseBool(value)
	return on, err == nil && name == "CBORServingAndStorage"
}
