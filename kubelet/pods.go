package kubelet

import (
	corev1 "k8s.io/api/core/v1"
)

// Pods returns the pods that the kubelet looks after, in no order, with the newest status that it
// knows, which may not have reached the API yet. They are the caller's.
func (k *Kubelet) Pods() []*corev1.Pod {
	k.pods.mu.Lock()
	workers := make([]*worker, 0, len(k.pods.workers))
	for _, w := range k.pods.workers {
		workers = append(workers, w)
	}
	k.pods.mu.Unlock()
	list := make([]*corev1.Pod, 0, len(workers))
	for _, w := range workers {
		list = append(list, k.portray(w))
	}
	return list
}

// Pod returns one of them by its name. Of several that had the name after each other it is the
// one that was made last.
func (k *Kubelet) Pod(namespace, name string) (*corev1.Pod, bool) {
	k.pods.mu.Lock()
	var found *worker
	var made *corev1.Pod
	for _, w := range k.pods.workers {
		pod := w.news.newest()
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
	return k.portray(found), true
}

// portray is a worker's pod with its newest status.
func (k *Kubelet) portray(w *worker) *corev1.Pod {
	pod := w.news.newest().DeepCopy()
	if status, known := k.sender.status(w.uid); known {
		pod.Status = status
	}
	return pod
}
