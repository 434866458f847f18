package check

// DeprecatedNodeLabel tells what to use instead of a label of nodes, or returns false if the label is not deprecated.
func DeprecatedNodeLabel(key string) (string, bool) {
	var since, instead string
	switch key {
	case "beta.kubernetes.io/arch":
		since, instead = "v1.14", `"kubernetes.io/arch"`
	case "beta.kubernetes.io/os":
		since, instead = "v1.14", `"kubernetes.io/os"`
	case "failure-domain.beta.kubernetes.io/region":
		since, instead = "v1.17", `"topology.kubernetes.io/region"`
	case "failure-domain.beta.kubernetes.io/zone":
		since, instead = "v1.17", `"topology.kubernetes.io/zone"`
	case "beta.kubernetes.io/instance-type":
		since, instead = "v1.17", `"node.kubernetes.io/instance-type"`
	case "scheduler.alpha.kubernetes.io/preferAvoidPods":
		since, instead = "v1.22", "Taints and Tolerations"
	case "app.kubernetes.io/created-by":
		return "deprecated since v1.9", true
	case "node-role.kubernetes.io/master":
		return `use "node-role.kubernetes.io/control-plane" instead`, true
	default:
		return "", false
	}
	return "deprecated since " + since + "; use " + instead + " instead", true
}
