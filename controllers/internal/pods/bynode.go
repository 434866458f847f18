package pods

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
)

// byNode is upstream's name of the index of pods by the node they are bound to.
const byNode = "spec.nodeName"

// IndexByNode adds the index that OnNode reads. It must be called before the informer runs; calling it again does
// nothing.
func IndexByNode(in *informer.Informer[*corev1.Pod]) {
	in.AddIndex(byNode, func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return []string{pod.Spec.NodeName}
	})
}

// OnNode returns the pods bound to a node, in key order.
func OnNode(in *informer.Informer[*corev1.Pod], node string) []*corev1.Pod {
	return in.ByIndex(byNode, node)
}
