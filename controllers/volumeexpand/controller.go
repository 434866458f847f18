package volumeexpand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Resizer is the annotation of claims that names who expands their volumes.
const Resizer = "volume.kubernetes.io/storage-resizer"

// ErrNotBound means that a claim is Bound to a volume that is not bound to it.
var ErrNotBound = errors.New("persistent Volume is not bound to PVC being updated")

// Client is what the controller needs of the server, as the service account expand-controller: to read volumes, and to
// patch the status of claims.
type Client interface {
	client.Getter
	client.Patcher
}

// Controller is the persistentvolume-expander-controller. Make one with New.
type Controller struct {
	claims   *informer.Informer[*corev1.PersistentVolumeClaim]
	client   Client
	recorder events.Recorder
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(claims *informer.Informer[*corev1.PersistentVolumeClaim], c Client, r events.Recorder) *Controller {
	return &Controller{claims: claims, client: c, recorder: r}
}

// Name is "persistentvolume-expander-controller".
func (*Controller) Name() string { return "persistentvolume-expander-controller" }

// Watch enqueues bound claims that are new, or want or have more than before.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.claims.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		Added: func(claim *corev1.PersistentVolumeClaim) {
			if claim.Status.Phase == corev1.ClaimBound {
				q.Add(controllers.KeyOf(claim))
			}
		},
		Updated: func(old, claim *corev1.PersistentVolumeClaim) {
			if claim.Status.Phase == corev1.ClaimBound && grown(old, claim) {
				q.Add(controllers.KeyOf(claim))
			}
		},
	})
	return []controllers.Synced{c.claims}
}

func grown(old, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.Resources.Requests.Storage().Cmp(*old.Spec.Resources.Requests.Storage()) > 0 ||
		claim.Status.Capacity.Storage().Cmp(*old.Status.Capacity.Storage()) > 0
}

// Reconcile says who expands the volume of a claim that wants more than it has.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	claim, ok := c.claims.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes"), Name: claim.Spec.VolumeName}
	pv, err := client.As[*corev1.PersistentVolume](c.client.Get(ctx, at))
	if err != nil {
		return controllers.Result{}, fmt.Errorf("failed to get PV %q: %w", claim.Spec.VolumeName, err)
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.Namespace != claim.Namespace || ref.UID != claim.UID {
		return controllers.Result{}, fmt.Errorf("%w: %s", ErrNotBound, key)
	}
	d := decide(claim, pv)
	if d.message == "" {
		return controllers.Result{}, nil
	}
	c.tell(claim, corev1.EventTypeNormal, d.message)
	if d.resizer == "" || claim.Annotations[Resizer] == d.resizer {
		return controllers.Result{}, nil
	}
	if err := c.annotate(ctx, claim, d.resizer); err != nil {
		err = fmt.Errorf("error setting resizer annotation to pvc %s, with error %w", key, err)
		if ctx.Err() == nil {
			c.tell(claim, corev1.EventTypeWarning, err.Error())
		}
		return controllers.Result{}, err
	}
	return controllers.Result{}, nil
}

func (c *Controller) tell(claim *corev1.PersistentVolumeClaim, level, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), claim),
		Type:      level, Reason: "ExternalExpanding", Message: message,
	})
}

// annotate names the resizer of a claim, if the claim is as the cache has it.
func (c *Controller) annotate(ctx context.Context, claim *corev1.PersistentVolumeClaim, resizer string) error {
	type metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	}
	data, err := json.Marshal(map[string]metadata{"metadata": {claim.ResourceVersion, map[string]string{Resizer: resizer}}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	at := client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		Namespace: claim.Namespace, Name: claim.Name, Subresource: "status",
	}
	if _, err := c.client.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", claim.Name, err)
	}
	return nil
}
