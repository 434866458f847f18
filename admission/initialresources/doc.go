// Package initialresources is the admission plugin InitialResources, which upstream had until 1.9: containers of a new pod that
// do not say how much CPU or memory they need get what 90 of 100 measurements of containers with the same image were below.
//
// A History knows the measurements. It is asked for those of the same image and tag in the pod's namespace in the last
// seven days, then, while there are fewer than thirty, for those of the last thirty days, of all namespaces in the last seven and
// in the last thirty days, and of other tags. What was set is said in the annotation kubernetes.io/initial-resources.
//
// The plugin runs before LimitRanger, whose defaults are for what is not known. It leaves alone what the pod says itself, for
// the container or, if it has resources of its own, for the pod as a whole; a request that is missing beside a limit is the
// limit, which defaults have set before.
//
// Package memory keeps measurements in this process, package prometheus asks a Prometheus server; historytest is the suite that
// both pass.
//
// # Errors
//
// Nothing is refused: if the History fails, or takes too long, that is logged, and the pod is created as it is. An object that
// is not a pod is an admission.ErrBadRequest.
//
// A Plugin is safe for concurrent use.
package initialresources
