// Package apps has the kinds of the API group apps: DaemonSet, Deployment, ReplicaSet, StatefulSet and
// ControllerRevision. Their rules and messages are those of Kubernetes 1.37; podspec has the rules of the pod templates
// inside. A Kind is data without state, safe for concurrent use.
package apps
