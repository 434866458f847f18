package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// database is a StatefulSet of one pod that writes a line to its volume whenever its container starts. It is placed on
// the node without the scheduler.
func database() *appsv1.StatefulSet {
	labels := map[string]string{"app": "db"}
	pod := corev1.PodSpec{
		NodeName: "node-0", TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "db", Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", "echo started >> /data/log; exec sleep 1000000"},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}},
	}
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "db",
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		}}},
	}}
}

// selectNode does what the scheduler does for the first consumer of a claim.
func selectNode(t *testing.T, api kubernetes.Interface, claim string) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"node-0"}}}`)
	within(t, time.Minute, func(ctx context.Context) error {
		_, err := api.CoreV1().PersistentVolumeClaims("default").Patch(ctx, claim, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// startedTimes waits until the container has started so many times, by what is in its volume on this machine.
func startedTimes(t *testing.T, dir string, times int) {
	t.Helper()
	within(t, 3*time.Minute, func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil {
			return err
		}
		if n := strings.Count(string(data), "started\n"); n != times {
			return fmt.Errorf("started %d times, want %d", n, times)
		}
		return nil
	})
}

// localMounts returns where local volumes are mounted for pods of the data directory.
func localMounts(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for trace := range traces(t) {
		if strings.HasPrefix(trace, "mount ") && strings.Contains(trace, "kubernetes.io~local-volume") && strings.Contains(trace, dir) {
			found = append(found, trace)
		}
	}
	return found
}

// TestVolumes: what a pod of a StatefulSet writes to its volume is there for its successor, and after the cluster was
// killed and started again, when it is mounted once; when the claim goes, so does the directory.
func TestVolumes(t *testing.T) {
	images, mirror := containersHere(t)
	p := program(t)
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--runtime", "containerd", "--images", images, "--registry-mirror", mirror, "--cluster-cidr", "10.82.0.0/16"}
	t.Cleanup(func() {
		if text, code, err := p.Fail(context.Background(), "--data-dir", dir, "--down"); err != nil || code != 0 {
			t.Errorf("--down: code %d, %v: %s", code, err, text)
		}
		if left := localMounts(t, dir); len(left) > 0 {
			t.Errorf("--down left %v", left)
		}
	})
	process := started(t, p, dir, args...)
	_, api := clients(t, process)
	waitForNodes(t, api, 1)
	pods, claims := api.CoreV1().Pods("default"), api.CoreV1().PersistentVolumeClaims("default")
	if _, err := api.AppsV1().StatefulSets("default").Create(t.Context(), database(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	selectNode(t, api, "data-db-0")
	var volume string
	within(t, time.Minute, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "data-db-0", metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("the claim is %s", claim.Status.Phase)
		}
		volume = claim.Spec.VolumeName
		return err
	})
	files := filepath.Join(dir, "nodes", "node-0", "volumes", volume)
	startedTimes(t, files, 1)

	if err := pods.Delete(t.Context(), "db-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	startedTimes(t, files, 2)
	within(t, time.Minute, func(context.Context) error {
		if on := localMounts(t, dir); len(on) != 1 {
			return fmt.Errorf("mounted: %v", on)
		}
		return nil
	})

	before := map[string]string{}
	within(t, time.Minute, func(ctx context.Context) (err error) {
		before, err = runningContainers(ctx, api)
		if err == nil && len(before) != 1 {
			err = fmt.Errorf("running: %v", before)
		}
		return err
	})
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	process = started(t, p, dir, args...)
	_, api = clients(t, process)
	waitForNodes(t, api, 1)
	stillRunning(t, api, before)
	pods, claims = api.CoreV1().Pods("default"), api.CoreV1().PersistentVolumeClaims("default")
	startedTimes(t, files, 2)
	if on := localMounts(t, dir); len(on) != 1 {
		t.Errorf("after the restart mounted: %v", on)
	}
	if err := pods.Delete(t.Context(), "db-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	startedTimes(t, files, 3)

	err := errors.Join(api.AppsV1().StatefulSets("default").Delete(t.Context(), "db", metav1.DeleteOptions{}),
		claims.Delete(t.Context(), "data-db-0", metav1.DeleteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	within(t, 2*time.Minute, func(ctx context.Context) error {
		if _, err := os.Stat(files); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the directory is left: %w", err)
		}
		if _, err := api.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the volume is left: %w", err)
		}
		return nil
	})
	if on := localMounts(t, dir); len(on) > 0 {
		t.Errorf("still mounted: %v", on)
	}
}
