package apiservice

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// priority decides where discovery lists a version: the group's, then its own in the group.
type priority struct{ group, version int32 }

// priorityOf returns upstream's priority of a version, and whether it is one of upstream's. Others have that of custom
// kinds.
func priorityOf(gv schema.GroupVersion) (p priority, builtin bool) {
	of, ok := groups()[gv.Group]
	if !ok {
		return priority{1000, 100}, false
	}
	p = priority{of.group, 15}
	switch {
	case gv.Group == "":
		p.version = 1
	case of.latest != "" && gv.Version == of.latest:
		p.version = of.priority
	case strings.Contains(gv.Version, "beta"):
		p.version = 9
	case strings.Contains(gv.Version, "alpha"):
		p.version = 1
	}
	return p, true
}

// place is where a group of upstream's is listed; the version latest, if any, has a priority other than 15.
type place struct {
	group    int32
	latest   string
	priority int32
}

func groups() map[string]place {
	return map[string]place{
		"": {group: 18000}, "apps": {group: 17800}, "events.k8s.io": {group: 17750}, "authentication.k8s.io": {group: 17700},
		"authorization.k8s.io": {group: 17600}, "autoscaling": {17500, "v2", 30}, "batch": {group: 17400},
		"certificates.k8s.io": {group: 17300}, "networking.k8s.io": {group: 17200}, "policy": {group: 17100},
		"rbac.authorization.k8s.io": {group: 17000}, "storage.k8s.io": {group: 16800}, "apiextensions.k8s.io": {group: 16700},
		"admissionregistration.k8s.io": {group: 16700}, "scheduling.k8s.io": {group: 16600}, "coordination.k8s.io": {group: 16500},
		"node.k8s.io": {group: 16300}, "discovery.k8s.io": {group: 16200}, "resource.k8s.io": {16200, "v1", 21},
		"flowcontrol.apiserver.k8s.io": {16100, "v1", 21}, "internal.apiserver.k8s.io": {group: 16000},
		"storagemigration.k8s.io": {group: 15800},
	}
}
