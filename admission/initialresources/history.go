package initialresources

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// History knows what containers have used. Implementations are safe for concurrent use.
type History interface {
	// Usage returns a percentile of the measurements that a query is about. That there are none is no error.
	Usage(ctx context.Context, q Query) (Usage, error)
}

// Query is about measurements of containers.
type Query struct {
	Resource   corev1.ResourceName // cpu or memory
	Image      string              // as containers name it
	AnyTag     bool                // other tags and digests of the image count, too
	Namespace  string              // of the pods; empty is all
	Percentile int                 // from 1 to 100
	// From and To bound the time of the measurements; both are included.
	From, To time.Time
}

// Usage is the answer to a Query.
type Usage struct {
	Value   int64 // thousandths of a CPU, or bytes
	Samples int   // how many measurements there are
}

// Percentile returns the smallest of the values that is not below so many percent of them, by nearest rank. It sorts them.
func Percentile(values []int64, percent int) Usage {
	if len(values) == 0 {
		return Usage{}
	}
	slices.Sort(values)
	rank := (len(values)*percent + 99) / 100
	return Usage{Value: values[min(max(rank, 1), len(values))-1], Samples: len(values)}
}

// Repository returns an image's name without its tag and digest.
func Repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		image = image[:at]
	}
	return image
}
