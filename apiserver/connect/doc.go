// Package connect connects the clients of an API server to what runs behind its objects: logs, exec, attach and
// port-forward through the kubelet of a pod's node, and the proxy subresources of pods, services and nodes.
//
// It connects to a kubelet over TLS alone, at an address in its node's status, with a client certificate; the kubelet's
// certificate must be signed by one of the given authorities. Kubelets speak SPDY, current clients WebSocket: exec and
// attach by v5.channel.k8s.io and port-forward by a tunnel are translated here, older subprotocols and SPDY are passed on as
// they are. So both upstream's kubelet and this module's package kubelet/server work with it.
//
// Kubelets in the same process need neither: Options.Kubelets connects to them without a network.
//
// A Connector keeps idle connections until Close. Everything is safe for concurrent use, and ends with the request's
// context.
package connect
