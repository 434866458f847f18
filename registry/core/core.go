package core

import "github.com/keelson-dev/keelson/registry"

// Kinds returns the kinds of the group in discovery order.
func Kinds(o Options) []registry.Kind {
	return []registry.Kind{
		bindings(),
		componentStatuses(o.Components),
		configMaps(),
		endpoints(),
		events(),
		limitRanges(),
		namespaces(),
		nodes(),
		persistentVolumeClaims(),
		persistentVolumes(),
		pods(),
		podTemplates(),
		replicationControllers(),
		resourceQuotas(),
		secrets(),
		serviceAccounts(o),
		services(o.Services),
	}
}
