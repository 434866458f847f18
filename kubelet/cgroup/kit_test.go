package cgroup_test

import (
	"io"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// list reads resources from pairs of names and quantities.
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func pod(uid types.UID, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: containers},
	}
}

func guaranteed(uid types.UID) *corev1.Pod {
	r := list("cpu", "500m", "memory", "64Mi")
	return pod(uid, container("a", r, r))
}

func burstable(uid types.UID) *corev1.Pod {
	return pod(uid, container("a", list("cpu", "250m", "memory", "32Mi"), list("cpu", "1", "memory", "64Mi")))
}

func bestEffort(uid types.UID) *corev1.Pod { return pod(uid, container("a", nil, nil)) }

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
