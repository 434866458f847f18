package attachdetach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

// errInUse means that a node has begun to use a volume that was to be detached.
var errInUse = errors.New("volume is still in use by node, according to Node status")

// act carries out a plan. A step that fails does not keep others from being done.
func (c *Controller) act(ctx context.Context, p *plan) error {
	var errs []error
	gone := map[string][]corev1.UniqueVolumeName{}
	for _, s := range p.steps {
		if s.verb == detach || s.verb == forget {
			gone[s.node] = append(gone[s.node], s.place.volume)
		}
	}
	unchanged := map[string]bool{}
	for _, node := range slices.Sorted(maps.Keys(gone)) {
		if err := c.reportOn(ctx, node, nil, gone[node]); err != nil {
			errs = append(errs, err)
			unchanged[node] = true // its kubelet may believe that the volumes are there
		}
	}
	added := map[string][]step{}
	for _, s := range p.steps {
		var err error
		switch s.verb {
		case detach:
			if unchanged[s.node] {
				p.undo(s.place)
			} else if err = c.detach(ctx, s); err != nil {
				p.undo(s.place)
			}
		case create:
			c.create(ctx, s, p)
		case report:
			added[s.node] = append(added[s.node], s)
		case forget, tell: // done above and below
		}
		errs = append(errs, err)
	}
	for _, node := range slices.Sorted(maps.Keys(added)) {
		errs = append(errs, c.attached(ctx, node, added[node]))
	}
	for _, s := range p.steps {
		if s.verb == tell {
			c.tell(s.events)
		}
	}
	return errors.Join(errs...)
}

// undo forgets that a volume was detached, which has failed.
func (p *plan) undo(at place) {
	t := p.after[at]
	t.deleted, t.leaving = "", time.Time{}
	p.after[at] = t
}

// attached reports new volumes of a node, and tells their pods.
func (c *Controller) attached(ctx context.Context, node string, steps []step) error {
	var names []corev1.UniqueVolumeName
	for _, s := range steps {
		names = append(names, s.place.volume)
	}
	if err := c.reportOn(ctx, node, names, nil); err != nil {
		return err
	}
	for _, s := range steps {
		c.tell(s.events)
	}
	return nil
}

func (c *Controller) tell(all []told) {
	for _, e := range all {
		c.recorder.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), e.pod), Type: e.level, Reason: e.reason, Message: e.message,
		})
	}
}

func attachmentOf(s step) client.Target {
	return client.Target{
		Resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments"), Name: AttachmentName(s.volume.handle, s.volume.driver, s.node),
	}
}

// create makes an attachment. An attempt that cannot make one has failed.
func (c *Controller) create(ctx context.Context, s step, p *plan) {
	at := attachmentOf(s)
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: at.Name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: s.volume.driver, NodeName: s.node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &s.volume.pv.Name},
		},
	}
	_, err := c.client.Create(ctx, at, va, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return
	}
	if ctx.Err() == nil {
		c.tell(failed(s.volume, s.node, fmt.Sprintf("kubernetes.io/csi: attacher.Attach failed: %v", err)))
	}
	t := p.after[s.place]
	t.end(time.Now())
	p.after[s.place] = t
	if p.wake.IsZero() || t.retry.Before(p.wake) {
		p.wake = t.retry
	}
}

// detach deletes an attachment. The volume is not among those that the node's status says are attached any more, so that
// a kubelet that does not use it yet will not.
func (c *Controller) detach(ctx context.Context, s step) error {
	if s.careful {
		node, err := client.As[*corev1.Node](c.client.Get(ctx, client.Target{Resource: nodes(), Name: s.node}))
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading node %s: %w", s.node, err)
		case slices.Contains(node.Status.VolumesInUse, s.place.volume):
			return fmt.Errorf("detaching %s from %s: %w", s.place.volume, s.node, errInUse)
		}
	}
	err := c.client.Delete(ctx, attachmentOf(s), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("detaching %s from %s: %w", s.place.volume, s.node, err)
	}
	return nil
}

// reportOn changes the report of a node's volumes. A node that is gone has none.
func (c *Controller) reportOn(ctx context.Context, name string, add, remove []corev1.UniqueVolumeName) error {
	node, ok := c.node(name)
	if !ok {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(node.Status.VolumesAttached), func(v corev1.AttachedVolume) bool {
		return slices.Contains(remove, v.Name)
	})
	for _, v := range add {
		list = append(list, corev1.AttachedVolume{Name: v})
	}
	if len(add) == 0 && len(list) == len(node.Status.VolumesAttached) {
		return nil
	}
	type status struct {
		VolumesAttached []corev1.AttachedVolume `json:"volumesAttached"`
	}
	type metadata struct {
		UID types.UID `json:"uid"`
	}
	data, err := json.Marshal(struct {
		Metadata metadata `json:"metadata"`
		Status   status   `json:"status"`
	}{metadata{node.UID}, status{list}})
	if err != nil {
		return fmt.Errorf("encoding the report of %s: %w", name, err)
	}
	at := client.Target{Resource: nodes(), Name: name, Subresource: "status"}
	stored, err := client.As[*corev1.Node](c.client.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reporting the volumes of %s: %w", name, err)
	}
	c.wrote(stored)
	return nil
}
