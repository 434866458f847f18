package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/pause"
)

// target is what is scaled.
type target struct {
	at    client.Target
	scale *autoscalingv1.Scale
}

// target reads the scale of what the autoscaler targets. Its errors wrap what users are told.
func (e *evaluation) target(ctx context.Context) (*target, error) {
	to := e.autoscaler.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(to.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("invalid API version in scale target reference: %w", err)
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: to.Kind}
	served := e.options.Served(ctx, kind)
	if len(served) == 0 {
		return nil, fmt.Errorf("unable to determine resource for scale target reference: %w", &meta.NoKindMatchError{GroupKind: kind})
	}
	var first error
	for _, resource := range served {
		at := client.Target{Resource: resource, Namespace: e.autoscaler.Namespace, Name: to.Name, Subresource: "scale"}
		scale, err := client.As[*autoscalingv1.Scale](e.client.Get(ctx, at))
		if err == nil {
			return &target{at: at, scale: scale.DeepCopy()}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("failed to query scale subresource for %s: %w", e.reference(), first)
}

// conflicts is how often a scale is updated if others write it at the same time, and between which pauses.
const (
	conflicts     = 5
	conflictPause = 10 * time.Millisecond
)

// update changes the number of replicas of the target, whatever others have changed since it was read.
func (e *evaluation) update(ctx context.Context, t *target, replicas int32) error {
	scale := t.scale.DeepCopy()
	for try := 1; ; try++ {
		scale.Spec.Replicas = replicas
		_, err := e.client.Update(ctx, t.at, scale, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) || try == conflicts {
			return err
		}
		latest, read := client.As[*autoscalingv1.Scale](e.client.Get(ctx, t.at))
		if read == nil {
			scale = latest.DeepCopy()
		}
		if pause.For(ctx, conflictPause) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}
