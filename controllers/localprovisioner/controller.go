package localprovisioner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	// The claims, the volumes, the storage classes and the nodes of the cluster.
	Claims  *informer.Informer[*corev1.PersistentVolumeClaim]
	Volumes *informer.Informer[*corev1.PersistentVolume]
	Classes *informer.Informer[*storagev1.StorageClass]
	Nodes   *informer.Informer[*corev1.Node]
}

// Writer is how the controller changes claims and volumes.
type Writer interface {
	client.Creator
	client.Patcher
	client.Deleter
}

// Controller is the provisioner. Make one with New.
type Controller struct {
	in       Sources
	dirs     Directories
	client   Writer
	recorder events.Recorder
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the provisioner of volumes in the directories.
func New(in Sources, dirs Directories, c Writer, r events.Recorder) *Controller {
	return &Controller{in: in, dirs: dirs, client: c, recorder: r}
}

// Name is "local-provisioner".
func (*Controller) Name() string { return "local-provisioner" }

// Watch enqueues claims that wait for volumes, and volumes to be removed.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	claim := func(claim *corev1.PersistentVolumeClaim) {
		if wanting(claim) {
			q.Add(controllers.KeyOf(claim))
		}
	}
	c.in.Claims.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		Added: claim, Updated: func(_, next *corev1.PersistentVolumeClaim) { claim(next) },
	})
	volume := func(pv *corev1.PersistentVolume) {
		if fateOf(pv) != keep {
			q.Add(controllers.KeyOf(pv))
		}
	}
	c.in.Volumes.AddHandler(informer.Handler[*corev1.PersistentVolume]{
		Added: volume, Updated: func(_, next *corev1.PersistentVolume) { volume(next) },
	})
	c.in.Classes.AddHandler(informer.Handler[*storagev1.StorageClass]{Added: func(class *storagev1.StorageClass) {
		for _, waiting := range c.in.Claims.List("") {
			if classOf(waiting) == class.Name {
				claim(waiting)
			}
		}
	}})
	return []controllers.Synced{c.in.Claims, c.in.Volumes, c.in.Classes, c.in.Nodes}
}

// Reconcile makes the volume for a claim, or removes a volume.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	if key.Namespace == "" {
		return controllers.Result{}, c.reclaim(ctx, key.Name)
	}
	return controllers.Result{}, c.provide(ctx, key)
}

func (c *Controller) provide(ctx context.Context, key controllers.Key) error {
	claim, ok := c.in.Claims.Get(key.Namespace, key.Name)
	if !ok || !wanting(claim) {
		return nil
	}
	if _, there := c.in.Volumes.Get("", NameFor(claim)); there {
		return nil
	}
	class, ok := c.in.Classes.Get("", classOf(claim))
	if !ok || class.Provisioner != Provisioner {
		return nil
	}
	name := claim.Annotations[selectedNode]
	if waits(class) && (name == "" || !c.dirs.Serves(name)) {
		return nil
	}
	if why := refusal(claim, class); why != "" {
		c.report(claim, corev1.EventTypeWarning, "ProvisioningFailed", why)
		return nil
	}
	node, ok := c.in.Nodes.Get("", name)
	if !ok {
		return c.reschedule(ctx, claim, name)
	}
	c.report(claim, corev1.EventTypeNormal, "Provisioning", fmt.Sprintf("External provisioner is provisioning volume for claim %q", key))
	pv, err := c.make(ctx, claim, class, node)
	if err != nil {
		err = fmt.Errorf("failed to provision volume with StorageClass %q: %w", class.Name, err)
		c.report(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return err
	}
	c.report(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume "+pv)
	return nil
}

// make makes the directory and then the volume.
func (c *Controller) make(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node) (string, error) {
	dir, err := c.dirs.Make(ctx, node.Name, NameFor(claim))
	if err != nil {
		return "", err
	}
	pv := volumeFor(claim, class, node, dir)
	_, err = c.client.Create(ctx, client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes")}, pv, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil // an answer was lost, or another process was faster
	}
	return pv.Name, err
}

// reschedule gives up a node that does not exist.
func (c *Controller) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim, node string) error {
	c.report(claim, corev1.EventTypeWarning, "ProvisioningFailed", apierrors.NewNotFound(corev1.Resource("nodes"), node).Error())
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: claim.Namespace, Name: claim.Name}
	return c.patch(ctx, at, map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "annotations": map[string]any{selectedNode: nil}})
}

// patch changes metadata; an object that is gone is none of its concern.
func (c *Controller) patch(ctx context.Context, at client.Target, metadata map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err == nil {
		_, err = c.client.Patch(ctx, at, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reclaim removes a volume whose claim is gone.
func (c *Controller) reclaim(ctx context.Context, name string) error {
	pv, ok := c.in.Volumes.Get("", name)
	if !ok {
		return nil
	}
	node, at := pv.Annotations[onNode], client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes"), Name: name}
	fate := fateOf(pv)
	if fate == keep || !c.dirs.Serves(node) {
		return nil
	}
	if fate == remove {
		if err := c.dirs.Remove(ctx, node, name); err != nil {
			c.report(pv, corev1.EventTypeWarning, "VolumeFailedDelete", err.Error())
			return err
		}
		if pv.DeletionTimestamp == nil {
			err := c.client.Delete(ctx, at, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID}})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err // the next event is about the finalizer
		}
	}
	rest := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == finalizer })
	return c.patch(ctx, at, map[string]any{"uid": pv.UID, "resourceVersion": pv.ResourceVersion, "finalizers": rest})
}

func (c *Controller) report(obj informer.Object, kind, reason, message string) {
	what := "PersistentVolumeClaim"
	if obj.GetNamespace() == "" {
		what = "PersistentVolume"
	}
	c.recorder.Record(events.Event{
		Regarding: events.About(corev1.SchemeGroupVersion.WithKind(what), obj), Type: kind, Reason: reason, Message: message,
	})
}
