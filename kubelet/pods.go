package kubelet

import (
	corev1 "k8s.io/api/core/v1"
)

// Pods returns the kubelet's pods, in no order, with the newest status that it knows, which may not have reached the
// API yet. The caller owns them.
func (k *Kubelet) Pods() []*corev1.Pod {
	k.pods.mu.Lock()
	workers := make([]*worker, 0, len(k.pods.workers))
	for _, w := range k.pods.workers {
		workers = append(workers, w)
	}
	k.pods.mu.Unlock()
	list := make([]*corev1.Pod, 0, len(workers))
	for _, w := range workers {
		list = append(list, k.view(w))
	}
	return list
}

// Pod returns one of the kubelet's pods by name; if several had the name in succession, the one created last.
func (k *Kubelet) Pod(namespace, name string) (*corev1.Pod, bool) {
	k.pods.mu.Lock()
	var found *worker
	var made *corev1.Pod
	for _, w := range k.pods.workers {
		pod := w.inbox.newest()
		if pod.Namespace != namespace || pod.Name != name {
			continue
		}
		if found == nil || made.CreationTimestamp.Before(&pod.CreationTimestamp) {
			found, made = w, pod
		}
	}
	k.pods.mu.Unlock()
	if found == nil {
		return nil, false
	}
	return k.view(found), true
}

// view returns a worker's pod with its newest status.
func (k *Kubelet) view(w *worker) *corev1.Pod {
	pod := w.inbox.newest().DeepCopy()
	if status, known := k.sender.status(w.uid); known {
		pod.Status = status
	}
	return pod
}
