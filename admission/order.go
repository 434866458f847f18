package admission

import "slices"

// UpstreamOrder returns the names of all plugins of kube-apiserver 1.37 in the order in which they run.
func UpstreamOrder() []string {
	return append([]string{
		"AlwaysAdmit",
		"NamespaceAutoProvision",
		"NamespaceLifecycle",
		"NamespaceExists",
		"LimitPodHardAntiAffinityTopology",
		"LimitRanger",
		"ServiceAccount",
		"NodeRestriction",
		"TaintNodesByCondition",
		"AlwaysPullImages",
		"ImagePolicyWebhook",
		"PodSecurity",
		"PodNodeSelector",
		"Priority",
		"DefaultTolerationSeconds",
		"PodTolerationRestriction",
		"EventRateLimit",
		"ExtendedResourceToleration",
		"DefaultStorageClass",
		"StorageObjectInUseProtection",
		"PodGroupProtection",
		"OwnerReferencesPermissionEnforcement",
		"PersistentVolumeClaimResize",
		"RuntimeClass",
		"CertificateApproval",
		"CertificateSigning",
		"ClusterTrustBundleAttest",
		"CertificateSubjectRestriction",
		"DefaultIngressClass",
		"DenyServiceExternalIPs",
		"PodTopologyLabels",
		"NodeDeclaredFeatureValidator",
		"PodResizeValidator",
	}, upstreamLast()...)
}

// upstreamLast returns the plugins that run after all others: webhooks see the other plugins' changes, and
// quota is charged only for requests that nothing else refuses.
func upstreamLast() []string {
	return []string{
		"MutatingAdmissionPolicy",
		"MutatingAdmissionWebhook",
		"ValidatingAdmissionPolicy",
		"ValidatingAdmissionWebhook",
		"ResourceQuota",
		"AlwaysDeny",
	}
}

// UpstreamDefault returns the names of the plugins that kube-apiserver 1.37 enables by default, in order.
func UpstreamDefault() []string {
	off := []string{
		"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceExists", "LimitPodHardAntiAffinityTopology",
		"NodeRestriction", "AlwaysPullImages", "ImagePolicyWebhook", "PodNodeSelector",
		"PodTolerationRestriction", "EventRateLimit", "ExtendedResourceToleration",
		"OwnerReferencesPermissionEnforcement", "DenyServiceExternalIPs", "AlwaysDeny",
	}
	return slices.DeleteFunc(UpstreamOrder(), func(name string) bool { return slices.Contains(off, name) })
}

// Ordered chains plugins in upstream's order, whatever order they are given in. Plugins that upstream does not
// have keep their order and run after all of upstream's except the last: policies, webhooks, quota. Of those that upstream had
// once, InitialResources runs before LimitRanger, and Initializers after MutatingAdmissionWebhook.
func Ordered(plugins ...Plugin) Chain {
	order := UpstreamOrder()
	last := len(order) - len(upstreamLast())
	order = slices.Insert(order, slices.Index(order, "LimitRanger"), "InitialResources")
	last++
	order = slices.Insert(order, slices.Index(order, "MutatingAdmissionWebhook")+1, "Initializers")
	place := func(p Plugin) int {
		switch at := slices.Index(order, p.Name()); {
		case at < 0:
			return last
		case at < last:
			return at
		default:
			return at + 1
		}
	}
	c := slices.Clone(plugins)
	slices.SortStableFunc(c, func(a, b Plugin) int { return place(a) - place(b) })
	return c
}
