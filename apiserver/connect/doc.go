// Package connect is the way from an API server to what runs behind its objects: logs, exec, attach
// and port-forward through the kubelet of a pod's node, and the proxy subresources of pods, services
// and nodes.
//
// A kubelet is reached over TLS alone, at an address that its node's status names, by a client
// certificate; its own certificate must be of the authorities given. Kubelets speak SPDY, clients of
// today WebSocket: exec and attach by v5.channel.k8s.io and port-forward by a tunnel are translated
// here, older subprotocols and SPDY pass as they are. So both upstream's kubelet and this module's
// package kubelet/server can stand behind it.
//
// A Connector keeps idle connections until Close. Everything is safe for concurrent use, and ends
// with the request's context.
package connect
