// Package podspec has the rules for pods and for the pod templates of other kinds: the defaults of unset fields, the
// validation of specs, and what an update of a pod, of its status, its ephemeral containers or its resources may
// change. It also has the rules for persistent volumes and claims, which share the sources of volumes with pods. They are
// those of the core/v1 API at Kubernetes 1.37 with its default feature gates; error types, paths and messages are the
// same as the API server's.
//
// Everything here is a pure function of its arguments. Functions named Default… and Drop… modify their arguments, the
// others modify nothing; none keeps its arguments. Validation returns field errors, never an error value, and does not
// panic on any object that can be decoded.
//
// A pod that was once accepted must stay updatable when rules become stricter. Therefore validation of an update takes
// the old spec (Options.Old) and allows what it already has.
//
// What kubelets, schedulers and controllers need as well is in the packages below: restart says which containers are
// restarted, qos which class of service a pod has, critical which pods are critical, origin which are static, features
// which features a pod needs of a kubelet. signername has the rules for names of signers, which other kinds share.
package podspec
