package volumes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
)

// ErrChanged means that the pod's volumes have changed since its node was chosen.
var ErrChanged = errors.New("the pod's volumes have changed")

// Reserve reserves the volumes that a pod has on a node for its claims. The returned undo takes that back as far as it
// has not been written; it is nil if all claims are bound. Bind needs a reservation.
func (v *Volumes) Reserve(pod *corev1.Pod, node string) (undo func(), err error) {
	if v.Bound(pod) {
		return nil, nil
	}
	object, ok := v.in.Nodes.Get("", node)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("node"), node)
	}
	claims, err := v.Of(pod)
	if err != nil {
		return nil, err
	}
	p, reasons, err := claims.Find(object)
	switch {
	case err != nil:
		return nil, err
	case len(reasons) > 0:
		return nil, fmt.Errorf("%w: %s", ErrChanged, strings.Join(reasons, ", "))
	case claims.Immediate > 0:
		return nil, ErrChanged
	}
	if err := v.assume(p, node); err != nil {
		v.restore(p)
		return nil, err
	}
	v.mu.Lock()
	v.reserved[pod.UID] = p
	v.mu.Unlock()
	return func() {
		v.mu.Lock()
		if v.reserved[pod.UID] == p {
			delete(v.reserved, pod.UID)
		}
		v.mu.Unlock()
		v.restore(p)
	}, nil
}

// assume puts what is to be written ahead of the caches.
func (v *Volumes) assume(p *Placement, node string) error {
	for i := range p.static {
		s := &p.static[i]
		if s.volume, s.assumed = reservedVolume(s.volume, s.claim); s.assumed {
			if err := v.volumes.assume(s.volume); err != nil {
				p.static = p.static[:i]
				p.dynamic = nil
				return err
			}
		}
	}
	for i := range p.dynamic {
		d := &p.dynamic[i]
		claim := d.claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, selectedNode, node)
		if err := v.claims.assume(claim); err != nil {
			p.dynamic = p.dynamic[:i]
			return err
		}
		d.claim = claim
	}
	return nil
}

// restore takes back what was assumed and has not been written.
func (v *Volumes) restore(p *Placement) {
	for _, s := range p.static {
		if s.assumed {
			v.volumes.restore(s.volume)
		}
	}
	for _, d := range p.dynamic {
		v.claims.restore(d.claim)
	}
}

// reservedVolume returns a volume reserved for a claim, and whether it was not yet.
func reservedVolume(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, bool) {
	if reservedFor(pv, claim) && pv.Spec.ClaimRef.UID == claim.UID {
		return pv, false
	}
	reserved := pv.DeepCopy()
	if !reservedFor(pv, claim) { // else a user did it
		metav1.SetMetaDataAnnotation(&reserved.ObjectMeta, boundByUs, "yes")
	}
	reserved.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	return reserved, true
}

// Reserved reports whether Bind has something to do for a pod.
func (v *Volumes) Reserved(pod *corev1.Pod) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reserved[pod.UID] != nil
}

// Bind writes what was reserved for a pod on a node, and returns when all its claims are bound. It does nothing for a
// pod without a reservation, and for one that it was called for before.
func (v *Volumes) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	v.mu.Lock()
	p := v.reserved[pod.UID]
	delete(v.reserved, pod.UID)
	v.mu.Unlock()
	if p == nil {
		return nil
	}
	wake := make(chan struct{}, 1)
	v.mu.Lock()
	v.waiting[wake] = struct{}{}
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.waiting, wake)
		v.mu.Unlock()
	}()
	if err := v.writeAll(ctx, p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.o.BindTimeout)
	defer cancel()
	for {
		done, err := v.done(p, node)
		if err != nil {
			return fmt.Errorf("binding volumes: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return fmt.Errorf("binding volumes: %w", ctx.Err())
		}
	}
}

// writeAll writes the volumes and the claims, and notes what the API returns: only later states tell about the binding.
func (v *Volumes) writeAll(ctx context.Context, p *Placement) error {
	for i := range p.static {
		s := &p.static[i]
		if stored, err := v.volumes.stored(nameOf(s.volume)); err == nil && reservedFor(stored, s.claim) && stored.Spec.ClaimRef.UID != "" {
			continue
		}
		pv, err := write(ctx, v.write, "persistentvolumes", s.volume)
		if err != nil {
			return err
		}
		s.volume = pv
	}
	for i := range p.dynamic {
		d := &p.dynamic[i]
		if stored, err := v.claims.stored(nameOf(d.claim)); err == nil && stored.Annotations[selectedNode] == d.claim.Annotations[selectedNode] {
			continue
		}
		claim, err := write(ctx, v.write, "persistentvolumeclaims", d.claim)
		if err != nil {
			return err
		}
		d.claim = claim
	}
	return nil
}

// writable is an object that can be written.
type writable interface {
	runtime.Object
	metav1.Object
}

func write[T writable](ctx context.Context, w client.Updater, resource string, obj T) (T, error) {
	updated, err := w.Update(ctx, client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource(resource),
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
	}, obj, metav1.UpdateOptions{})
	if err != nil {
		return obj, err
	}
	typed, ok := updated.(T)
	if !ok {
		return obj, fmt.Errorf("updating %s: the answer is a %T", resource, updated)
	}
	return typed, nil
}

// done reports whether all claims of a placement are bound. It fails if they will not be, and the pod has to be scheduled
// again. It looks at the API's states alone, since other pods may be promised things meanwhile.
func (v *Volumes) done(p *Placement, name string) (bool, error) {
	node, ok := v.in.Nodes.Get("", name)
	if !ok {
		return false, fmt.Errorf("failed to get node %q: %w", name, apierrors.NewNotFound(corev1.Resource("node"), name))
	}
	csi := v.csiNode(name)
	for _, s := range p.static {
		if done, err := v.staticDone(s, node, csi); err != nil || !done {
			return false, err
		}
	}
	for _, d := range p.dynamic {
		if done, err := v.dynamicDone(d, node, csi); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

func (v *Volumes) staticDone(s static, node *corev1.Node, csi *storagev1.CSINode) (bool, error) {
	pv, err := v.volumes.stored(nameOf(s.volume))
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	claim, err := v.claims.stored(nameOf(s.claim))
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	if older(pv, s.volume) {
		return false, nil
	}
	if err := reachable(pv, node, csi); err != nil {
		return false, err
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
	}
	return bound(claim), nil
}

func (v *Volumes) dynamicDone(d dynamic, node *corev1.Node, csi *storagev1.CSINode) (bool, error) {
	claim, err := v.claims.stored(nameOf(d.claim))
	switch {
	case err != nil:
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	case older(claim, d.claim):
		return false, nil
	case claim.Annotations == nil:
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
	case claim.Annotations[selectedNode] != node.Name: // the provisioner gives up in this way
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	}
	if claim.Spec.VolumeName != "" {
		pv, ok := v.volumes.in.Get("", claim.Spec.VolumeName)
		if !ok {
			return false, nil // not seen yet, or gone, and then the claim will be unbound
		}
		if err := reachable(pv, node, csi); err != nil {
			return false, err
		}
	}
	return bound(claim), nil
}

// reachable returns why a volume cannot be used on a node.
func reachable(pv *corev1.PersistentVolume, node *corev1.Node, csi *storagev1.CSINode) error {
	if plugin := replaceable(pv); plugin != "" && onNode(plugin, csi) {
		var err error
		if pv, err = translated(pv); err != nil {
			return fmt.Errorf("failed to translate pv to csi: %w", err)
		}
	}
	if err := reachOf(pv).from(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}}); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, node.Name, err)
	}
	return nil
}

// older reports whether a is an older state than b.
func older(a, b metav1.Object) bool { return version(a) < version(b) }

func version(obj metav1.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
