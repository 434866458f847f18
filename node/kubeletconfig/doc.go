// Package kubeletconfig reads a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), the file of upstream's kubelet --config, for
// a node of package host:
//
//	apiVersion: kubelet.config.k8s.io/v1beta1
//	kind: KubeletConfiguration
//	clusterDNS: [10.96.0.10]
//	evictionHard: {memory.available: 200Mi}
//	maxPods: 50
//	cpuManagerPolicy: static
//	reservedSystemCPUs: 0-1
//
// What a file asks for and a node here would not do is refused, with what it does instead: everything may be left out, or have its
// zero value, and many fields may have the value that describes what a node here does.
//
// # Errors
//
// Every error is an *Error, or several joined, and names file, line and field.
package kubeletconfig
