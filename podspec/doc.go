// Package podspec has the rules of pods and of the pod templates inside other kinds: the
// defaults of unset fields, what a valid spec is, what an update of a pod, of its status, its
// ephemeral containers or its resources may change, and the quality-of-service class. They are
// those of the core/v1 API at Kubernetes 1.37 with its default feature gates, in its words:
// error types, paths and messages are the API server's.
//
// Everything here is a pure function of its arguments. Functions named Default… and
// Drop… change what they are given, the others change nothing; none keeps its arguments.
// Validation returns field errors, never an error value, and does not panic on any object that
// can be decoded.
//
// A pod that was once accepted must stay updatable when rules grow stricter. Therefore
// validation of an update takes the old spec (Options.Old) and allows what that already has.
package podspec
