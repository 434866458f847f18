package attachdetach

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// volume is a CSI volume, with who needs it and where it is.
type volume struct {
	name           corev1.UniqueVolumeName
	driver, handle string
	pv             *corev1.PersistentVolume // nil if there is none any more
	users          map[string][]*corev1.Pod // that need it attached, by node, in the order of their keys
	attachments    map[string]*storagev1.VolumeAttachment
}

// called is how events name a volume.
func (v *volume) called() string {
	if v.pv == nil {
		return "nil"
	}
	return v.pv.Name
}

// exclusive reports whether a volume can be on one node only.
func (v *volume) exclusive() bool {
	if v.pv == nil || len(v.pv.Spec.AccessModes) == 0 {
		return false
	}
	return !slices.ContainsFunc(v.pv.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// host is what matters of a node.
type host struct {
	exists, ready, outOfService bool
	inUse, reported             map[corev1.UniqueVolumeName]bool
	unknown                     bool // whether its volumes are in use is not known
}

func (h host) uses(volume corev1.UniqueVolumeName) bool { return h.unknown || h.inUse[volume] }

func hostOf(node *corev1.Node) host {
	h := host{exists: true, ready: ready(node), outOfService: outOfService(node)}
	h.inUse, h.reported = set(node.Status.VolumesInUse), map[corev1.UniqueVolumeName]bool{}
	for _, v := range node.Status.VolumesAttached {
		h.reported[v.Name] = true
	}
	return h
}

func set(names []corev1.UniqueVolumeName) map[corev1.UniqueVolumeName]bool {
	out := make(map[corev1.UniqueVolumeName]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// world is what the caches show of volumes and nodes.
type world struct {
	volumes map[corev1.UniqueVolumeName]*volume
	hosts   map[string]host
}

// host returns what is known of a node; of one that was never seen, nothing but that it does not exist.
func (w *world) host(name string) host {
	if h, ok := w.hosts[name]; ok {
		return h
	}
	return host{unknown: true}
}

// volume returns a volume by its name, which is entered if it is not there.
func (w *world) volume(driver, handle string) *volume {
	name := VolumeName(driver, handle)
	v, ok := w.volumes[name]
	if !ok {
		v = &volume{
			name: name, driver: driver, handle: handle,
			users: map[string][]*corev1.Pod{}, attachments: map[string]*storagev1.VolumeAttachment{},
		}
		w.volumes[name] = v
	}
	return v
}

// look gathers what the caches show.
func (c *Controller) look() *world {
	w := &world{volumes: map[corev1.UniqueVolumeName]*volume{}, hosts: c.hosts()}
	byPV := map[string]*volume{}
	for _, pv := range c.in.Volumes.List("") {
		if pv.Spec.CSI == nil {
			continue
		}
		v := w.volume(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
		if v.pv == nil {
			v.pv = pv
		}
		byPV[pv.Name] = v
	}
	for name, h := range w.hosts {
		for reported := range h.reported {
			driver, handle, ok := parse(reported)
			if !ok {
				continue
			}
			v := w.volume(driver, handle)
			if va, ok := c.in.Attachments.Get("", AttachmentName(handle, driver, name)); ok {
				v.attachments[name] = va // though its volume may be gone
			}
		}
	}
	for _, va := range c.in.Attachments.List("") {
		if va.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		v, ok := byPV[*va.Spec.Source.PersistentVolumeName]
		if ok && va.Name == AttachmentName(v.handle, v.driver, va.Spec.NodeName) {
			v.attachments[va.Spec.NodeName] = va
		}
	}
	for _, pv := range c.in.Volumes.List("") {
		if v, ok := byPV[pv.Name]; ok && c.attachable(v.driver) {
			c.users(w, v, pv)
		}
	}
	return w
}

// attachable reports whether volumes of a driver have to be attached.
func (c *Controller) attachable(driver string) bool {
	d, ok := c.in.Drivers.Get("", driver)
	return !ok || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// users notes which pods need a volume, and where.
func (c *Controller) users(w *world, v *volume, pv *corev1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return
	}
	claim, ok := c.in.Claims.Get(ref.Namespace, ref.Name)
	if !ok || claim.UID != ref.UID || claim.Spec.VolumeName != pv.Name || claim.Status.Phase != corev1.ClaimBound {
		return
	}
	for _, pod := range pods.UsingClaim(c.in.Pods, claim.Namespace, claim.Name) {
		node := pod.Spec.NodeName
		if node == "" || done(pod) || !mounts(pod, claim) {
			continue
		}
		// A node that is gone gets no volumes, but those of its pods stay where they are until the pods are gone, too.
		if v.attachments[node] == nil && !w.host(node).exists {
			continue
		}
		if !slices.Contains(v.users[node], pod) {
			v.users[node] = append(v.users[node], pod)
		}
	}
	for _, users := range v.users {
		slices.SortFunc(users, func(a, b *corev1.Pod) int {
			return cmp.Compare(controllers.KeyOf(a).String(), controllers.KeyOf(b).String())
		})
	}
}

// mounts reports whether a pod may use the claim that one of its volumes names: one of an ephemeral volume must have been
// made for the pod.
func mounts(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return pods.ClaimOf(pod, &v) == claim.Name && (v.Ephemeral == nil || metav1.IsControlledBy(claim, pod))
	})
}

// done reports whether a pod needs no volumes: it has ended, or is being deleted and no container of it runs.
func done(pod *corev1.Pod) bool {
	if pods.Terminal(pod) {
		return true
	}
	runs := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil && s.State.Waiting == nil }
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.InitContainerStatuses, runs) &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, runs) && !slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, runs)
}
