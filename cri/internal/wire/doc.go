// Package wire maps the types of package cri to the messages of CRI (k8s.io/cri-api, runtime.v1) and back, and errors
// to gRPC status codes and back, for the client in cri/remote and the server in cri/serve.
//
// Functions named Encode… make messages, those named Decode… read them. Message fields that package cri does not have
// are dropped; the package's test lists them.
//
// Encoding and decoding share slices and maps with their argument: the caller owns both.
package wire

import (
	"time"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// encodeTime is in nanoseconds; the zero time is 0.
func encodeTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// decodeTime treats everything before 1970 as unset: some runtimes send Go's zero time.
func decodeTime(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// each maps a list; an empty one is nil.
func each[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i := range list {
		out[i] = convert(list[i])
	}
	return out
}

func encodeInt(n *int64) *v1.Int64Value {
	if n == nil {
		return nil
	}
	return &v1.Int64Value{Value: *n}
}

func decodeInt(n *v1.Int64Value) *int64 {
	if n == nil {
		return nil
	}
	value := n.GetValue()
	return &value
}
