package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

type kind byte

const (
	pod                kind = 'p'
	secret             kind = 's'
	configMap          kind = 'c'
	claim              kind = 'v'
	volume             kind = 'w'
	serviceAccount     kind = 'a'
	resourceClaim      kind = 'r'
	volumeAttachment   kind = 't'
	resourceSlice      kind = 'l'
	certificateRequest kind = 'q'
)

type object struct {
	kind            kind
	namespace, name string
}

// key names an object in an index. Names have no slashes.
func (o object) key() string { return string(o.kind) + o.namespace + "/" + o.name }

// byUse indexes pods under "node/object" for the node they are on and each object they use, and volumes under each
// object they use.
const byUse = "authz/node.use"

func (in Sources) index() {
	in.Pods.AddIndex(byUse, func(p *corev1.Pod) []string {
		if p.Spec.NodeName == "" {
			return nil
		}
		var keys []string
		for _, o := range append(usedBy(p), object{pod, p.Namespace, p.Name}) {
			keys = append(keys, p.Spec.NodeName+"/"+o.key())
		}
		return keys
	})
	if in.Volumes == nil {
		return
	}
	in.Volumes.AddIndex(byUse, func(v *corev1.PersistentVolume) []string {
		var keys []string
		for _, o := range secretsOf(v) {
			keys = append(keys, o.key())
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	})
}

// related reports whether something on the node uses the object, or the object is the node's own.
func (in Sources) related(o object, node string) bool {
	switch o.kind {
	case volume:
		if in.Volumes == nil {
			return false
		}
		v, ok := in.Volumes.Get("", o.name)
		return ok && in.mounted(v, node)
	case volumeAttachment:
		return owned(in.Attachments, o, func(a *attachment) string { return a.Spec.NodeName }, node)
	case resourceSlice:
		return owned(in.ResourceSlices, o, func(s *slice) string {
			if s.Spec.NodeName == nil {
				return ""
			}
			return *s.Spec.NodeName
		}, node)
	case certificateRequest:
		return owned(in.CertificateRequests, o, func(r *request) string { return string(r.Spec.NodeName) }, node)
	}
	if len(in.Pods.ByIndex(byUse, node+"/"+o.key())) > 0 {
		return true
	}
	return o.kind == secret && in.Volumes != nil &&
		slices.ContainsFunc(in.Volumes.ByIndex(byUse, o.key()), func(v *corev1.PersistentVolume) bool { return in.mounted(v, node) })
}

// mounted reports whether a pod on the node uses the claim that a volume is bound to.
func (in Sources) mounted(v *corev1.PersistentVolume, node string) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && in.related(object{claim, ref.Namespace, ref.Name}, node)
}

// owned reports whether an object exists and names the node in a field of its own.
func owned[T any](in Getter[T], o object, owner func(T) string, node string) bool {
	if in == nil {
		return false
	}
	obj, ok := in.Get(o.namespace, o.name)
	return ok && owner(obj) == node
}
