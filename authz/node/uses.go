package node

import (
	"slices"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/informer"
)

type kind uint8

const (
	pod kind = iota
	secret
	configMap
	claim
	volume
	serviceAccount
	resourceClaim
	volumeAttachment
	resourceSlice
	certificateRequest
)

type object struct {
	kind            kind
	namespace, name string
}

// uses is who uses what. Pods, attachments and the like are holders: each belongs to one node
// and uses objects. A volume has no node of its own; it shares the fate of the claim it is
// bound to, and so do the secrets it names.
type uses struct {
	mu      sync.RWMutex
	holders map[object]holding
	nodes   map[object]map[string]int      // object → node → how many holders there use it
	claims  map[string]object              // volume → claim
	volumes map[object]map[string]struct{} // secret → volumes that name it
	secrets map[string][]object            // volume → secrets it names
}

type holding struct {
	node string
	uses []object // including the holder itself
}

func newUses() *uses {
	return &uses{
		holders: map[object]holding{}, nodes: map[object]map[string]int{},
		claims: map[string]object{}, volumes: map[object]map[string]struct{}{}, secrets: map[string][]object{},
	}
}

// related tells whether something on the node uses the object.
func (u *uses) related(o object, node string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if o.kind == volume {
		o = u.claims[o.name]
	}
	if u.nodes[o][node] > 0 {
		return true
	}
	for v := range u.volumes[o] {
		if u.nodes[u.claims[v]][node] > 0 {
			return true
		}
	}
	return false
}

// hold replaces what a holder uses; without a node it uses nothing.
func (u *uses) hold(holder object, node string, objects ...object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.holders[holder]
	for _, o := range last.uses {
		if u.nodes[o][last.node]--; u.nodes[o][last.node] == 0 {
			delete(u.nodes[o], last.node)
		}
		if len(u.nodes[o]) == 0 {
			delete(u.nodes, o)
		}
	}
	delete(u.holders, holder)
	if node == "" {
		return
	}
	h := holding{node: node, uses: append(objects, holder)}
	u.holders[holder] = h
	for _, o := range h.uses {
		if u.nodes[o] == nil {
			u.nodes[o] = map[string]int{}
		}
		u.nodes[o][node]++
	}
}

// bind replaces the claim that a volume is bound to and the secrets it names.
func (u *uses) bind(name string, to object, secrets []object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.secrets[name] {
		if delete(u.volumes[s], name); len(u.volumes[s]) == 0 {
			delete(u.volumes, s)
		}
	}
	delete(u.secrets, name)
	delete(u.claims, name)
	if to.name == "" {
		return
	}
	u.claims[name] = to
	u.secrets[name] = secrets
	for _, s := range secrets {
		if u.volumes[s] == nil {
			u.volumes[s] = map[string]struct{}{}
		}
		u.volumes[s][name] = struct{}{}
	}
}

func (u *uses) follow(in Sources) {
	in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: u.putPod,
		Updated: func(old, p *corev1.Pod) {
			if !sameUses(old, p) {
				u.putPod(p)
			}
		},
		Deleted: func(p *corev1.Pod) { u.hold(object{pod, p.Namespace, p.Name}, "") },
	})
	if in.Volumes != nil {
		in.Volumes.AddHandler(informer.Handler[*corev1.PersistentVolume]{
			Added: u.putVolume, Updated: func(_, v *corev1.PersistentVolume) { u.putVolume(v) },
			Deleted: func(v *corev1.PersistentVolume) { u.bind(v.Name, object{}, nil) },
		})
	}
	if in.Attachments != nil {
		follow(u, in.Attachments, volumeAttachment, func(a *storagev1.VolumeAttachment) string { return a.Spec.NodeName })
	}
	if in.ResourceSlices != nil {
		follow(u, in.ResourceSlices, resourceSlice, func(s *resourcev1.ResourceSlice) string {
			if s.Spec.NodeName == nil {
				return ""
			}
			return *s.Spec.NodeName
		})
	}
	if in.CertificateRequests != nil {
		follow(u, in.CertificateRequests, certificateRequest, func(r *certificatesv1.PodCertificateRequest) string { return string(r.Spec.NodeName) })
	}
}

// follow learns of objects that belong to a node by a field of theirs.
func follow[T informer.Object](u *uses, feed Feed[T], k kind, node func(T) string) {
	put := func(obj T) { u.hold(object{k, obj.GetNamespace(), obj.GetName()}, node(obj)) }
	feed.AddHandler(informer.Handler[T]{
		Added: put,
		Updated: func(old, obj T) {
			if node(old) != node(obj) {
				put(obj)
			}
		},
		Deleted: func(obj T) { u.hold(object{k, obj.GetNamespace(), obj.GetName()}, "") },
	})
}

func (u *uses) putPod(p *corev1.Pod) {
	if p.Spec.NodeName != "" {
		u.hold(object{pod, p.Namespace, p.Name}, p.Spec.NodeName, usedBy(p)...)
	}
}

func (u *uses) putVolume(v *corev1.PersistentVolume) {
	if v.Spec.ClaimRef == nil {
		u.bind(v.Name, object{}, nil)
		return
	}
	u.bind(v.Name, object{claim, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name}, secretsOf(v))
}

// sameUses spares the work for the updates that are most: what a bound pod refers to changes
// only by ephemeral containers and resource claims made for it.
func sameUses(old, p *corev1.Pod) bool {
	return old.Spec.NodeName == p.Spec.NodeName && old.UID == p.UID &&
		len(old.Spec.EphemeralContainers) == len(p.Spec.EphemeralContainers) &&
		slices.EqualFunc(old.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses, func(a, b corev1.PodResourceClaimStatus) bool {
			return equality.Semantic.DeepEqual(a, b)
		}) &&
		equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, p.Status.ExtendedResourceClaimStatus)
}
