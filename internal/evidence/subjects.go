package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// Subject is a result and the code that it is about.
type Subject struct {
	Name string
	// Paths are the directories and files in the repository whose code is measured.
	Paths []string
	// Make is the make target that measures.
	Make string
	// Optional is set if neither the result nor its place in the README is required.
	Optional bool
}

// Subjects returns the results in results/, by name.
func Subjects() []Subject {
	library := []string{
		"admission", "apiserver", "authn", "authz", "client", "cluster", "component", "controllers", "cri", "dns", "events", "flowcontrol", "go.mod", "informer", "kubelet",
		"lifecycle", "networkpolicy", "node", "overlay", "pki", "podspec", "proxy", "registry", "scheduler", "storage", "tracing", "internal/apireference", "internal/atomicfile", "internal/bootstraptoken", "internal/boundedcbor", "internal/boundedquantity",
		"internal/boundedyaml", "internal/configfile", "internal/cronschedule", "internal/inmemory", "internal/jsonpatch", "internal/jsonpost", "internal/nfnetlink", "internal/nft", "internal/pause", "internal/quota", "internal/restclient",
		"internal/signingrequest", "internal/strategicpatch", "internal/upgrade",
	}
	program := append([]string{"examples/cluster"}, library...)
	node := append([]string{"cni", "tools/node"}, program...)
	store := []string{
		"admission", "apiserver", "authn", "authz", "bench/soak", "flowcontrol", "go.mod", "informer", "internal/atomicfile", "internal/boundedcbor", "internal/boundedquantity", "internal/boundedyaml", "internal/jsonpatch",
		"internal/linear", "internal/pause", "internal/strategicpatch", "node/filelock", "pki", "podspec", "registry", "storage",
	}
	measuring := func(by string, what []string) []string {
		all := append([]string{by}, what...)
		slices.Sort(all)
		return all
	}
	return []Subject{
		{"cluster", measuring("bench/cluster", library), "bench", false},
		{"conformance", measuring("conformance/e2e", program), "conformance", false},
		{"conformance-pods", measuring("conformance/e2e", append([]string{"conformance/images"}, node...)), "conformance-pods", false},
		{"controllerruntime", measuring("conformance/controllerruntime", append([]string{"examples/assets"}, library...)), "controllerruntime", true},
		{"kills", measuring("bench/kills", program), "kills", false},
		{"mutants", measuring("tools/mutants", library), "mutants", true},
		{"node", measuring("bench/node", append([]string{"bench/containers"}, node...)), "bench", false},
		{"operators", measuring("conformance/controllerruntime", append([]string{"examples/assets"}, library...)), "operators", true},
		{"packets", []string{"cni/netns", "go.mod", "informer", "proxy"}, "packets", true},
		{"peers", measuring("bench/peers", append([]string{"bench/containers"}, node...)), "bench-peers", false},
		{"proofs", []string{"."}, "proofs", true},
		{"scale", measuring("bench/scale", library), "scale", false},
		{"serve", measuring("bench/serve", program), "bench", false},
		{"services", measuring("bench/services", program), "bench-services", true},
		{"soak", measuring("internal/etcdtest", store), "soak", false},
		{"swaps", measuring("conformance/components", append([]string{"examples/controllers", "examples/kube-scheduler", "examples/kubelet"}, node...)), "swaps", true},
	}
}

// part is the suffix of results of partial measurements, which prove nothing on their own.
const part = "-part"

// subject finds one by its name.
func subject(name string) (Subject, error) {
	for _, s := range Subjects() {
		if s.Name == strings.TrimSuffix(name, part) {
			return s, nil
		}
	}
	return Subject{}, fmt.Errorf("%w: %q is not in the table of internal/evidence/subjects.go", ErrUnknown, name)
}
