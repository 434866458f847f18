// Package node has the kind of the API group node.k8s.io: RuntimeClass, which names a way of running containers, what a pod
// costs beyond its containers if it is run so, and on which nodes it can be. Its rules and messages are those of Kubernetes
// 1.37. The admission plugin RuntimeClass, package admission/runtimeclass, gives pods what their class says. A Kind is data
// without state, safe for concurrent use.
package node
